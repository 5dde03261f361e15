/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a transport's library that is missing, or is not one, is refused with a sentence that names it.
 * Method: a path that does not exist, a file that is no library, and a library of somebody else's.
 */
#include "dataplane/io/plugin.h"

#include <apus/core.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void refused(const char *file, int wanted, const char *part)
{
	const struct apus_dp_plugin *plugin = NULL;
	char why[256] = "";

	assert_int_equal(apus_dp_plugin_load(file, why, sizeof(why), &plugin), wanted);
	assert_null(plugin);
	assert_non_null(strstr(why, part));
	assert_non_null(strstr(why, file));
}

static void a_missing_file_is_named(void **state)
{
	(void)state;
	refused("/nonexistent/libapus-dpdk.so", APUS_ENOTSUP, "cannot be loaded");
}

static void what_is_no_library_is_refused(void **state)
{
	(void)state;
	refused("/proc/self/cmdline", APUS_ENOTSUP, "cannot be loaded");
}

static void another_library_is_refused(void **state)
{
	(void)state;
	refused("libcmocka.so.0", APUS_EINVAL, "no transport of Apus");
}

static void the_reason_is_cut_to_its_room(void **state)
{
	const struct apus_dp_plugin *plugin = NULL;
	char why[8] = "1234567";

	(void)state;
	assert_int_equal(apus_dp_plugin_load("/nonexistent", why, 4, &plugin), APUS_ENOTSUP);
	assert_string_equal(why, "the");
	assert_memory_equal(why + 4, "567", 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_missing_file_is_named),
		cmocka_unit_test(what_is_no_library_is_refused),
		cmocka_unit_test(another_library_is_refused),
		cmocka_unit_test(the_reason_is_cut_to_its_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

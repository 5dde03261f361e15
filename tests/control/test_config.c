/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the settings table, its parser and its printer agree, and bad input changes nothing.
 * Method: every row is checked against its own range text from outside; durations, lists and files are
 * tried with concrete values, and every refusal is followed by a comparison with the state before.
 */
#include "base/atomics.h"
#include "control/config.h"
#include "control/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define DOTS "…"

static struct apus_config *make(void **state)
{
	struct apus_config *config = apus_config_create();

	(void)state;
	assert_non_null(config);
	return config;
}

/* Every default is in its own range, prints as itself and is what get returns. */
static void defaults_print_as_themselves(void **state)
{
	struct apus_config *config = make(state);
	const struct apus_setting *s;
	char value[1100];
	size_t count = 0;

	for (; (s = apus_config_describe(count)); count++) {
		assert_int_equal(apus_config_set(config, s->name, s->default_value, NULL, 0), 0);
		assert_int_equal(apus_config_get(config, s->name, value, sizeof(value)), 0);
		assert_string_equal(value, s->default_value);
		assert_true(strlen(s->help) > 10 && s->help[strlen(s->help) - 1] == '.');
		for (size_t other = 0; other < count; other++)
			assert_string_not_equal(apus_config_describe(other)->name, s->name);
	}
	assert_int_equal(count, apus_ctl_setting_count);
	assert_null(apus_config_describe(SIZE_MAX));
	apus_config_destroy(config);
}

static void neighbours(const struct apus_ctl_setting *s, char *below, char *above)
{
	if (s->kind == APUS_CTL_KIND_DURATION) {
		snprintf(below, 32, "%lldns", (long long)s->min - 1);
		snprintf(above, 32, "%lldns", (long long)s->max + (s->max < INT64_MAX));
	} else {
		snprintf(below, 32, "%lld", (long long)s->min - 1);
		snprintf(above, 32, "%lld", (long long)s->max + 1);
	}
}

/* "a…b" in the range text means: a and b are accepted, one less and one more are not. */
static void ranges_mean_what_they_say(void **state)
{
	struct apus_config *config = make(state);

	for (size_t i = 0; i < apus_ctl_setting_count; i++) {
		const struct apus_ctl_setting *s = &apus_ctl_settings[i];
		char text[64], below[32], above[32], *low = text, *high;

		if (s->kind > APUS_CTL_KIND_DURATION)
			continue;
		snprintf(text, sizeof(text), "%s", s->shown.range);
		if (s->kind == APUS_CTL_KIND_AUTO) {
			assert_int_equal(strncmp(text, "auto | ", 7), 0);
			assert_int_equal(apus_config_set(config, s->shown.name, "auto", NULL, 0),
					 0);
			low += 7;
		}
		high = strstr(low, DOTS);
		assert_non_null(high);
		*high = 0;
		high += strlen(DOTS);
		neighbours(s, below, above);
		assert_int_equal(apus_config_set(config, s->shown.name, below, NULL, 0),
				 APUS_EINVAL);
		if (strcmp(high, "inf") != 0)
			assert_int_equal(apus_config_set(config, s->shown.name, above, NULL, 0),
					 APUS_EINVAL);
		assert_int_equal(apus_config_set(config, s->shown.name, low, NULL, 0), 0);
		assert_int_equal(apus_config_set(config, s->shown.name, high, NULL, 0), 0);
	}
	apus_config_destroy(config);
}

/* The words of a choice are exactly those of its range text. */
static void words_are_those_of_the_range(void **state)
{
	struct apus_config *config = make(state);

	for (size_t i = 0; i < apus_ctl_setting_count; i++) {
		const struct apus_ctl_setting *s = &apus_ctl_settings[i];
		char joined[128] = "";

		for (size_t w = 0; s->kind == APUS_CTL_KIND_WORD && s->words[w]; w++) {
			strcat(strcat(joined, w ? " | " : ""), s->words[w]);
			assert_int_equal(
				apus_config_set(config, s->shown.name, s->words[w], NULL, 0), 0);
		}
		if (*joined)
			assert_string_equal(joined, s->shown.range);
		if (s->kind != APUS_CTL_KIND_TEXT && s->kind != APUS_CTL_KIND_PEERS &&
		    s->kind != APUS_CTL_KIND_SERVERS)
			assert_int_equal(
				apus_config_set(config, s->shown.name, "Nonsense", NULL, 0),
				APUS_EINVAL);
	}
	apus_config_destroy(config);
}

static void durations_parse_exactly(void **state)
{
	static const struct {
		const char *text;
		int64_t ns;
	} good[] = {
		{"100ms", 100000000},      {"2s", 2000000000},
		{"1.5s", 1500000000},      {"0.000000001s", 1},
		{"1.25us", 1250},          {"0ns", 0},
		{"3min", 180000000000},    {"1h", 3600000000000},
		{"0.5h", 1800000000000},   {"9223372036854775806ns", INT64_MAX - 1},
		{"inf", APUS_INFINITE_NS},
	};
	static const char *const bad[] = {
		"",
		"1",
		"s",
		"-1s",
		"+1s",
		" 1s",
		"1s ",
		"1 s",
		"1.s",
		".5s",
		"1e3s",
		"1.5ns",
		"infinite",
		"1.0000000001s",
		"9223372036854775807ns",
		"9223372036854775808ns",
		"99999999999999999999s",
		"2562048h",
		"1,5s",
		"0x10s",
	};
	int64_t ns;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		char text[40];
		int64_t back;

		assert_int_equal(apus_ctl_duration_parse(good[i].text, &ns), 0);
		assert_int_equal(ns, good[i].ns);
		assert_int_equal(apus_ctl_duration_format(ns, text, sizeof(text)), 0);
		assert_int_equal(apus_ctl_duration_parse(text, &back), 0);
		assert_int_equal(back, ns);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		ns = 42;
		assert_int_equal(apus_ctl_duration_parse(bad[i], &ns), APUS_EINVAL);
		assert_int_equal(ns, 42);
	}
	assert_int_equal(apus_ctl_duration_format(1500000000, (char[7]){0}, 7), 0);
	assert_int_equal(apus_ctl_duration_format(1500000000, (char[6]){0}, 6), APUS_ELIMIT);
}

static void lists_parse_or_leave_the_old_one(void **state)
{
	struct apus_config *config = make(state);
	const struct apus_ctl_config *c = apus_ctl_config_of(config);
	char value[64], error[200];

	assert_int_equal(
		apus_config_set(config, "peers", "10.0.0.1, host-b:7410 ,c.example", NULL, 0), 0);
	assert_int_equal(c->peer_count, 3);
	assert_string_equal(c->peer[0].host, "10.0.0.1");
	assert_int_equal(c->peer[0].port, 0);
	assert_string_equal(c->peer[1].host, "host-b");
	assert_int_equal(c->peer[1].port, 7410);
	assert_int_equal(
		apus_config_set(config, "peers", "[fd00::1]:7410,[::1],[::ffff:10.0.0.1]", NULL, 0),
		0);
	assert_string_equal(c->peer[0].host, "fd00::1");
	assert_int_equal(c->peer[0].port, 7410);
	assert_string_equal(c->peer[1].host, "::1");
	assert_int_equal(c->peer[1].port, 0);
	assert_string_equal(c->peer[2].host, "::ffff:10.0.0.1");
	assert_int_equal(
		apus_config_set(config, "peers", "10.0.0.1, host-b:7410 ,c.example", NULL, 0), 0);
	assert_int_equal(apus_config_set(config, "worker.cores", "2,3,63", NULL, 0), 0);
	assert_int_equal(c->worker_core_count, 3);
	assert_int_equal(c->worker_core[2], 63);

	static const char *const bad_peers[] = {
		"a,,b",       "a:0",  "a:65536", "a:",         ":7400",   "a b",
		",",          "a:7x", "a,",      "a/b",        "fd00::1", "[fd00::1",
		"[fd00::1]x", "[]",   "[a:b]:0", "[fd00::1]:", "[name]:7"};
	for (size_t i = 0; i < sizeof(bad_peers) / sizeof(*bad_peers); i++)
		assert_int_equal(
			apus_config_set(config, "peers", bad_peers[i], error, sizeof(error)),
			APUS_EINVAL);
	assert_int_equal(c->peer_count, 3);
	assert_string_equal(c->peer[2].host, "c.example");
	assert_int_equal(apus_config_set(config, "worker.cores", "1,1024", NULL, 0), APUS_EINVAL);
	assert_int_equal(apus_config_get(config, "worker.cores", value, sizeof(value)), 0);
	assert_string_equal(value, "2,3,63");
	assert_int_equal(apus_config_set(config, "peers", "", NULL, 0), 0);
	assert_int_equal(c->peer_count, 0);
	apus_config_destroy(config);
}

static void servers_have_ports_and_are_named_once(void **state)
{
	static const char *const bad[] = {"a,,b",        "a:0",     "a:65536",        "a,a",
					  "a,b,a:11811", "fd00::1", "udp:10.0.0.1:7", ":11811"};
	struct apus_config *config = make(state);
	const struct apus_ctl_config *c = apus_ctl_config_of(config);
	char text[APUS_CTL_TEXT_BYTES + 1] = "a:1";

	assert_int_equal(c->server_count, 0);
	assert_int_equal(apus_config_set(config, "discovery.servers",
					 "10.0.0.1, 10.0.0.1:11812,[fd00::1]:7", NULL, 0),
			 0);
	assert_int_equal(c->server_count, 3);
	assert_string_equal(c->server[0].host, "10.0.0.1");
	assert_int_equal(c->server[0].port, 11811);
	assert_int_equal(c->server[1].port, 11812);
	assert_string_equal(c->server[2].host, "fd00::1");
	assert_int_equal(c->server[2].port, 7);
	for (size_t i = 0; i < APUS_ARRAY_LENGTH(bad); i++)
		assert_int_equal(apus_config_set(config, "discovery.servers", bad[i], NULL, 0),
				 APUS_EINVAL);
	assert_int_equal(c->server_count, 3);
	for (int i = 1; i < APUS_CTL_SERVERS_MAX; i++)
		sprintf(text + strlen(text), ",a:%d", i + 1);
	assert_int_equal(apus_config_set(config, "discovery.servers", text, NULL, 0), 0);
	assert_int_equal(c->server_count, APUS_CTL_SERVERS_MAX);
	assert_int_equal(apus_config_set(config, "discovery.servers", strcat(text, ",b"), NULL, 0),
			 APUS_EINVAL);
	assert_int_equal(c->server_count, APUS_CTL_SERVERS_MAX);
	assert_int_equal(apus_config_set(config, "discovery.super_client", "on", NULL, 0), 0);
	assert_int_equal(apus_ctl_config_check(c, NULL, 0), 0);
	assert_int_equal(apus_config_set(config, "discovery.servers", "", NULL, 0), 0);
	assert_int_equal(c->server_count, 0);
	assert_int_equal(apus_ctl_config_check(c, NULL, 0), APUS_EINVAL); /* without effect */
	apus_config_destroy(config);
}

static void more_items_than_fit_are_refused(void **state)
{
	struct apus_config *config = make(state);
	char text[APUS_CTL_TEXT_BYTES + 10] = "a";

	for (int i = 1; i < APUS_CTL_PEERS_MAX; i++)
		strcat(text, ",a");
	assert_int_equal(apus_config_set(config, "peers", text, NULL, 0), 0);
	assert_int_equal(apus_config_set(config, "peers", strcat(text, ",a"), NULL, 0),
			 APUS_EINVAL);
	assert_int_equal(apus_ctl_config_of(config)->peer_count, APUS_CTL_PEERS_MAX);
	memset(text, 'x', sizeof(text));
	text[APUS_CTL_TEXT_BYTES + 1] = 0;
	assert_int_equal(apus_config_set(config, "interfaces", text, NULL, 0), APUS_EINVAL);
	text[256] = 0;
	assert_int_equal(apus_config_set(config, "participant.name", text, NULL, 0), APUS_EINVAL);
	text[255] = 0;
	assert_int_equal(apus_config_set(config, "participant.name", text, NULL, 0), 0);
	assert_int_equal(apus_config_set(config, "participant.name", "a\nb", NULL, 0), APUS_EINVAL);
	apus_config_destroy(config);
}

static void errors_name_setting_value_and_range(void **state)
{
	struct apus_config *config = make(state);
	char error[200], tiny[4];

	assert_int_equal(apus_config_set(config, "domain", "233", error, sizeof(error)),
			 APUS_EINVAL);
	assert_string_equal(error, "domain: '233' is not in the range 0…232");
	assert_int_equal(apus_config_set(config, "domian", "1", error, sizeof(error)), APUS_ENOENT);
	assert_string_equal(error, "domian: no such setting");
	assert_int_equal(apus_config_get(config, "domian", tiny, sizeof(tiny)), APUS_ENOENT);
	assert_int_equal(apus_config_get(config, "worker.mode", tiny, sizeof(tiny)), APUS_ELIMIT);
	assert_int_equal(apus_config_set(config, "domain", "233", tiny, sizeof(tiny)), APUS_EINVAL);
	assert_string_equal(tiny, "dom");
	apus_config_destroy(config);
}

static void write_file(char *path, const char *content, size_t bytes)
{
	int fd;

	strcpy(path, "/tmp/apus-test-config-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, content, bytes), (ssize_t)bytes);
	close(fd);
}

static int load(struct apus_config *config, const char *content, char *error, size_t error_bytes)
{
	char path[64];
	int result;

	write_file(path, content, strlen(content));
	result = apus_config_load(config, path, error, error_bytes);
	unlink(path);
	return result;
}

static void a_file_is_taken_whole_or_not_at_all(void **state)
{
	struct apus_config *config = make(state);
	const struct apus_ctl_config *c = apus_ctl_config_of(config);
	char error[300];

	assert_int_equal(load(config,
			      "# a comment\n\n  domain = 7 # seven\r\nlease=5s\npeers = a, b:1\n"
			      "worker.idle=pause",
			      error, sizeof(error)),
			 0);
	assert_int_equal(c->domain, 7);
	assert_int_equal(c->lease_ns, 5000000000);
	assert_int_equal(c->peer_count, 2);
	assert_int_equal(c->worker_idle, APUS_CTL_IDLE_PAUSE);

	assert_int_equal(load(config, "domain = 8\nlease = 5\n", error, sizeof(error)),
			 APUS_EINVAL);
	assert_non_null(strstr(error, ":2: lease: '5' is not in the range 1s…inf"));
	assert_int_equal(c->domain, 7);
	assert_int_equal(load(config, "domain = 8\nnonsense\n", error, sizeof(error)), APUS_EINVAL);
	assert_non_null(strstr(error, ":2: 'nonsense' is not of the form name = value"));
	assert_int_equal(load(config, "colour = red\n", error, sizeof(error)), APUS_EINVAL);
	assert_non_null(strstr(error, ":1: colour: no such setting"));
	assert_int_equal(c->domain, 7);
	assert_int_equal(apus_config_load(config, "/nonexistent/apus.conf", error, sizeof(error)),
			 APUS_ENOENT);
	apus_config_destroy(config);
}

static int load_section(struct apus_config *config, enum apus_config_section section,
			const char *content, char *error, size_t error_bytes)
{
	char path[64];
	int result;

	write_file(path, content, strlen(content));
	result = apus_config_load_section(config, section, path, error, error_bytes);
	unlink(path);
	return result;
}

static void a_file_serves_both_sides_of_a_worker_process(void **state)
{
	static const char text[] =
		"interfaces = lo\n"
		"[application]\ntransport = worker # by the process\nlease = 5s\n"
		" [worker] # below is its own\ntransport = socket\nworker.count = 3\n"
		"[application]\ndomain = 9\n";
	struct apus_config *a = make(state), *w = make(state);
	const struct apus_ctl_config *ca = apus_ctl_config_of(a), *cw = apus_ctl_config_of(w);
	char error[300];

	assert_int_equal(load(a, text, NULL, 0), 0);
	assert_int_equal(load_section(w, APUS_CONFIG_WORKER, text, NULL, 0), 0);
	assert_string_equal(ca->interfaces, "lo");
	assert_string_equal(cw->interfaces, "lo");
	assert_int_equal(ca->transport, APUS_CTL_TRANSPORT_WORKER);
	assert_int_equal(cw->transport, APUS_CTL_TRANSPORT_SOCKET);
	assert_int_equal(ca->worker_count, 1);
	assert_int_equal(cw->worker_count, 3);
	assert_int_equal(ca->domain, 9);
	assert_int_equal(cw->domain, 0);
	assert_int_equal(cw->lease_ns, ca->lease_ns * 4); /* 20 s, the default */
	/* The other side's lines are checked as well, and an unknown section is none of either. */
	assert_int_equal(load(a, "domain = 3\n[worker]\nworker.count = x\n", error, sizeof(error)),
			 APUS_EINVAL);
	assert_non_null(strstr(error, ":3: worker.count: 'x' is not in the range"));
	assert_int_equal(load(a, "domain = 3\n[workers]\n", error, sizeof(error)), APUS_EINVAL);
	assert_non_null(strstr(error, ":2: '[workers]' is no section"));
	assert_int_equal(ca->domain, 9);
	assert_int_equal(load_section(a, (enum apus_config_section)2, text, error, sizeof(error)),
			 APUS_EINVAL);
	apus_config_destroy(a);
	apus_config_destroy(w);
}

static void unreadable_files_are_refused(void **state)
{
	struct apus_config *config = make(state);
	static char big[70000];
	char path[64];

	memset(big, '\n', sizeof(big));
	write_file(path, big, sizeof(big));
	assert_int_equal(apus_config_load(config, path, NULL, 0), APUS_EINVAL);
	unlink(path);
	write_file(path, "domain = 1\0\n", 12);
	assert_int_equal(apus_config_load(config, path, NULL, 0), APUS_EINVAL);
	unlink(path);
	assert_int_equal(apus_config_load(config, "/tmp", NULL, 0), APUS_EINVAL);
	assert_int_equal(apus_ctl_config_of(config)->domain, 0);
	apus_config_destroy(config);
}

static void settings_are_checked_against_each_other(void **state)
{
	struct apus_ctl_config c;
	char why[200];

	(void)state;
	apus_ctl_config_default(&c);
	assert_int_equal(apus_ctl_config_check(&c, NULL, 0), 0);
	c.announce_period_ns = c.lease_ns / 2 + 1;
	assert_int_equal(apus_ctl_config_check(&c, why, sizeof(why)), APUS_EINVAL);
	c.lease_ns = APUS_INFINITE_NS;
	assert_int_equal(apus_ctl_config_check(&c, NULL, 0), 0);
	c.domain = 232;
	c.participant_index = 62;
	assert_int_equal(apus_ctl_config_check(&c, NULL, 0), 0);
	c.participant_index = 63;
	assert_int_equal(apus_ctl_config_check(&c, why, sizeof(why)), APUS_EINVAL);
	assert_string_equal(why, "participant.index: 63 has no ports in domain 232");
	c.participant_index = APUS_CTL_AUTO;
	c.worker_count = 3;
	c.worker_core_count = 2;
	assert_int_equal(apus_ctl_config_check(&c, why, sizeof(why)), APUS_EINVAL);
	c.worker_core_count = 3;
	c.history_samples = 10;
	assert_int_equal(apus_ctl_config_check(&c, why, sizeof(why)), APUS_EINVAL);
}

/* What is set is refused unless it has an effect: a port's settings without a port, sockets' with one. */
static void settings_of_another_transport_are_refused(void **state)
{
	static const char *const port[][2] = {{"dpdk.port", "net_null0"},
					      {"dpdk.address", "10.0.0.1/24"},
					      {"dpdk.gateway", "10.0.0.9"},
					      {"dpdk.ipv6", "fd00::1/64"},
					      {"dpdk.vlan", "7"},
					      {"dpdk.mtu", "1400"},
					      {"dpdk.neighbours", "10.0.0.2=02:00:00:00:00:02"},
					      {"dpdk.partial_checksums", "accept"},
					      {"dpdk.hugepages", "no"},
					      {"dpdk.eal", "-v"},
					      {"dpdk.poll_period", "2ms"},
					      {"dpdk.library", "/x"}};
	char why[256], wanted[128];

	for (size_t i = 0; i < APUS_ARRAY_LENGTH(port); i++) {
		struct apus_config *config = make(state);

		assert_int_equal(apus_config_set(config, port[i][0], port[i][1], NULL, 0), 0);
		assert_int_equal(
			apus_ctl_config_check(apus_ctl_config_of(config), why, sizeof(why)),
			APUS_EINVAL);
		snprintf(wanted, sizeof(wanted), "%s: has no effect with transport = auto",
			 port[i][0]);
		assert_string_equal(why, wanted);
		apus_config_destroy(config);
	}
}

static void checked(struct apus_config *config, const char *name, const char *value,
		    const char *complaint)
{
	char why[256] = "";

	assert_int_equal(apus_config_set(config, name, value, NULL, 0), 0);
	assert_int_equal(apus_ctl_config_check(apus_ctl_config_of(config), why, sizeof(why)),
			 complaint ? APUS_EINVAL : 0);
	if (complaint)
		assert_string_equal(why, complaint);
}

static void a_port_needs_what_it_needs(void **state)
{
	struct apus_config *c = make(state);

	checked(c, "transport", "dpdk", "dpdk.port: is needed with transport = dpdk");
	checked(c, "dpdk.port", "net_null0", "dpdk.address: is needed with transport = dpdk");
	checked(c, "dpdk.address", "10.0.0.1/24", NULL);
	checked(c, "dpdk.ipv6", "fd00::1/64", "dpdk.ipv6: has no effect with transport.ipv6 = off");
	checked(c, "transport.ipv6", "on", "dpdk.address: has no effect with transport.ipv6 = on");
	checked(c, "dpdk.address", "", NULL);
	checked(c, "dpdk.ipv6", "", "dpdk.ipv6: is needed with transport = dpdk");
	checked(c, "dpdk.ipv6", "fd00::1/64", NULL);
	checked(c, "socket.segment", "off", "socket.segment: has no effect with transport = dpdk");
	checked(c, "socket.segment", "on", NULL);
	checked(c, "interfaces", "lo",
		"interfaces: has no effect with transport = dpdk; dpdk.port names the interface");
	apus_config_destroy(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settings_of_another_transport_are_refused),
		cmocka_unit_test(a_port_needs_what_it_needs),
		cmocka_unit_test(defaults_print_as_themselves),
		cmocka_unit_test(ranges_mean_what_they_say),
		cmocka_unit_test(words_are_those_of_the_range),
		cmocka_unit_test(durations_parse_exactly),
		cmocka_unit_test(lists_parse_or_leave_the_old_one),
		cmocka_unit_test(servers_have_ports_and_are_named_once),
		cmocka_unit_test(more_items_than_fit_are_refused),
		cmocka_unit_test(errors_name_setting_value_and_range),
		cmocka_unit_test(a_file_is_taken_whole_or_not_at_all),
		cmocka_unit_test(a_file_serves_both_sides_of_a_worker_process),
		cmocka_unit_test(unreadable_files_are_refused),
		cmocka_unit_test(settings_are_checked_against_each_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

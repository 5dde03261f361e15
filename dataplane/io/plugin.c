/* SPDX-License-Identifier: Apache-2.0 */
/* Loading of transports that are libraries of their own: see plugin.h. */
#include "dataplane/io/plugin.h"

#include <apus/core.h>

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>

/* The folder of the file this code was linked into, with the slash; "" if unknown. */
static void own_folder(char *out, size_t bytes)
{
	Dl_info info;
	const char *slash;

	out[0] = '\0';
	if (!dladdr((void *)(uintptr_t)apus_dp_plugin_load, &info) || !info.dli_fname)
		return;
	slash = strrchr(info.dli_fname, '/');
	if (slash && (size_t)(slash + 1 - info.dli_fname) < bytes)
		snprintf(out, bytes, "%.*s", (int)(slash + 1 - info.dli_fname), info.dli_fname);
}

static void *open_file(const char *file, char *why, size_t why_bytes)
{
	char path[PATH_MAX];
	const char *reason;
	void *library = NULL;

	if (file[0] == '\0') {
		own_folder(path, sizeof(path) - sizeof(APUS_DP_PLUGIN_DPDK));
		if (path[0] != '\0') {
			strcat(path, APUS_DP_PLUGIN_DPDK);
			library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		}
		file = APUS_DP_PLUGIN_DPDK;
	}
	if (!library)
		library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		reason = dlerror();
		snprintf(why, why_bytes, "the DPDK transport cannot be loaded: %s",
			 reason ? reason : file);
	}
	return library;
}

int apus_dp_plugin_load(const char *file, char *why, size_t why_bytes,
			const struct apus_dp_plugin **plugin_out)
{
	const struct apus_dp_plugin *plugin;
	void *library = open_file(file, why, why_bytes);

	if (!library)
		return APUS_ENOTSUP;
	/* A library once loaded stays: threads of DPDK run in it. */
	plugin = dlsym(library, APUS_DP_PLUGIN_SYMBOL);
	if (!plugin) {
		snprintf(why, why_bytes, "%s is no transport of Apus", file);
		return APUS_EINVAL;
	}
	if (plugin->version != APUS_DP_PLUGIN_VERSION ||
	    plugin->queue_bytes != sizeof(struct apus_dp_queue) ||
	    plugin->config_bytes != sizeof(struct apus_dp_port_config)) {
		snprintf(why, why_bytes, "%s belongs to another version of Apus",
			 file[0] ? file : APUS_DP_PLUGIN_DPDK);
		return APUS_EINVAL;
	}
	*plugin_out = plugin;
	return 0;
}

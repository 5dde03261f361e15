/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings as text: parsing, printing, files. Everything is driven by the table in control/limits.c.
 *
 * A value is checked completely before it is stored, a file completely before any line of it is.
 */
#include "control/config.h"

#include "base/atomics.h"
#include "base/clock.h"
#include "control/limits.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** Largest file of settings read. */
#define FILE_BYTES_MAX 65536
/** Where a Discovery Server of Fast DDS listens by default. */
#define SERVER_PORT 11811

struct apus_config {
	struct apus_ctl_config parsed;
};

/* Where a complaint goes; text may be NULL. */
struct complaint {
	char *text;
	size_t bytes;
};

__attribute__((format(printf, 2, 3))) static int complain(struct complaint to, const char *format,
							  ...)
{
	va_list args;

	if (to.text && to.bytes) {
		va_start(args, format);
		vsnprintf(to.text, to.bytes, format, args);
		va_end(args);
	}
	return APUS_EINVAL;
}

/* ---- numbers and durations ---------------------------------------------------------------------- */

static bool parse_number(const char *text, int64_t *out)
{
	int64_t value = 0;

	if (!*text)
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9' || __builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, *text - '0', &value))
			return false;
	}
	*out = value;
	return true;
}

static const struct {
	const char *name;
	int64_t ns;
} duration_units[] = {
	{"h", 3600 * APUS_NS_PER_SEC}, {"min", 60 * APUS_NS_PER_SEC}, {"s", APUS_NS_PER_SEC},
	{"ms", APUS_NS_PER_MS},        {"us", APUS_NS_PER_US},        {"ns", 1},
};

static int64_t unit_ns(const char *name)
{
	for (size_t i = 0; i < APUS_ARRAY_LENGTH(duration_units); i++)
		if (strcmp(name, duration_units[i].name) == 0)
			return duration_units[i].ns;
	return 0;
}

/* Reads "12.345" into a whole part and billionths; returns what follows, NULL if it is no number. */
static const char *parse_decimal(const char *text, int64_t *whole, int64_t *billionths)
{
	int64_t scale = APUS_NS_PER_SEC;

	if (!isdigit((unsigned char)*text))
		return NULL;
	*whole = *billionths = 0;
	for (; isdigit((unsigned char)*text); text++) {
		if (__builtin_mul_overflow(*whole, 10, whole) ||
		    __builtin_add_overflow(*whole, *text - '0', whole))
			return NULL;
	}
	if (*text != '.')
		return text;
	for (text++; isdigit((unsigned char)*text); text++) {
		scale /= 10;
		if (scale == 0)
			return NULL;
		*billionths += scale * (*text - '0');
	}
	return scale == APUS_NS_PER_SEC ? NULL : text;
}

int apus_ctl_duration_parse(const char *text, int64_t *ns_out)
{
	int64_t whole, billionths, unit, ns;
	__int128 part;
	const char *rest;

	if (strcmp(text, "inf") == 0) {
		*ns_out = APUS_INFINITE_NS;
		return 0;
	}
	rest = parse_decimal(text, &whole, &billionths);
	unit = rest ? unit_ns(rest) : 0;
	if (!unit || __builtin_mul_overflow(whole, unit, &ns))
		return APUS_EINVAL;
	/* 10^9 billionths of an hour exceed 64 bits; a fraction of a nanosecond is refused. */
	part = (__int128)billionths * unit;
	if (part % APUS_NS_PER_SEC ||
	    __builtin_add_overflow(ns, (int64_t)(part / APUS_NS_PER_SEC), &ns) ||
	    ns == APUS_INFINITE_NS)
		return APUS_EINVAL;
	*ns_out = ns;
	return 0;
}

int apus_ctl_duration_format(int64_t ns, char *text_out, size_t text_bytes)
{
	int written;
	size_t i = 0;

	if (ns == APUS_INFINITE_NS) {
		written = snprintf(text_out, text_bytes, "inf");
	} else {
		/* The largest unit that divides it; zero is "0ns". */
		while (ns == 0 ? duration_units[i].ns > 1 : ns % duration_units[i].ns != 0)
			i++;
		written = snprintf(text_out, text_bytes, "%lld%s",
				   (long long)(ns / duration_units[i].ns), duration_units[i].name);
	}
	return written < 0 || (size_t)written >= text_bytes ? APUS_ELIMIT : 0;
}

/* ---- lists -------------------------------------------------------------------------------------- */

static char *trim(char *text)
{
	char *end;

	while (isspace((unsigned char)*text))
		text++;
	end = text + strlen(text);
	while (end > text && isspace((unsigned char)end[-1]))
		*--end = 0;
	return text;
}

/* An IPv6 address stands in brackets, "[fd00::1]:7410": takes them off, and returns where the port is. */
static char *unwrap(char **item)
{
	char *end = **item == '[' ? strchr(*item, ']') : NULL;

	if (!end || (end[1] && end[1] != ':') ||
	    strspn(*item + 1, "0123456789abcdefABCDEF:.") != (size_t)(end - *item - 1))
		return NULL;
	*end = 0;
	++*item;
	return end + 1;
}

static bool parse_peer(char *item, struct apus_ctl_peer *peer)
{
	char *rest = unwrap(&item);
	char *colon = rest ? (*rest ? rest : NULL) : strchr(item, ':');
	int64_t port = 0;

	if (colon) {
		*colon = 0;
		if (!parse_number(colon + 1, &port) || port < 1 || port > 65535)
			return false;
	}
	if (!*item || strlen(item) > APUS_CTL_HOST_BYTES)
		return false;
	for (const char *c = item; *c && !rest; c++)
		if (!isalnum((unsigned char)*c) && !strchr(".-_", *c))
			return false;
	strcpy(peer->host, item);
	peer->port = (uint16_t)port;
	return true;
}

/* Splits `text` at commas; `take` is given each item, trimmed. False at the first it refuses. */
static bool parse_list(const char *text, bool (*take)(struct apus_ctl_config *, char *),
		       struct apus_ctl_config *config)
{
	char copy[APUS_CTL_TEXT_BYTES + 1], *rest = copy, *item;

	strcpy(copy, text);
	if (!*trim(copy))
		return true;
	while ((item = strsep(&rest, ",")))
		if (!take(config, trim(item)))
			return false;
	return true;
}

static bool take_peer(struct apus_ctl_config *config, char *item)
{
	if (config->peer_count == APUS_CTL_PEERS_MAX)
		return false;
	return parse_peer(item, &config->peer[config->peer_count++]);
}

/* Without a port: the one that servers listen at unless told otherwise. None is named twice. */
static bool take_server(struct apus_ctl_config *config, char *item)
{
	struct apus_ctl_peer *server = &config->server[config->server_count];

	if (config->server_count == APUS_CTL_SERVERS_MAX || !parse_peer(item, server))
		return false;
	if (server->port == 0)
		server->port = SERVER_PORT;
	for (uint32_t i = 0; i < config->server_count; i++)
		if (config->server[i].port == server->port &&
		    strcmp(config->server[i].host, server->host) == 0)
			return false;
	config->server_count++;
	return true;
}

static bool take_core(struct apus_ctl_config *config, char *item)
{
	int64_t core;

	if (config->worker_core_count == APUS_CTL_CORES_MAX || !parse_number(item, &core) ||
	    core > 1023)
		return false;
	config->worker_core[config->worker_core_count++] = (uint16_t)core;
	return true;
}

static bool take_prefix(struct apus_ctl_address_list *list, const char *item)
{
	return list->count < APUS_CTL_PREFIXES_MAX &&
	       apus_ctl_address_prefix_parse(item, &list->at[list->count++]) == 0;
}

static bool take_allowed(struct apus_ctl_config *config, char *item)
{
	return take_prefix(&config->allow, item);
}

static bool take_denied(struct apus_ctl_config *config, char *item)
{
	return take_prefix(&config->deny, item);
}

static bool printable(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return false;
	return true;
}

/* ---- one setting -------------------------------------------------------------------------------- */

static const struct apus_ctl_setting *find(const char *name)
{
	for (size_t i = 0; i < apus_ctl_setting_count; i++)
		if (strcmp(apus_ctl_settings[i].shown.name, name) == 0)
			return &apus_ctl_settings[i];
	return NULL;
}

/* Stores a number if it is in range. */
static bool store_number(const struct apus_ctl_setting *s, const char *value, void *at)
{
	int64_t number;

	if (!parse_number(value, &number) || number < s->min || number > s->max)
		return false;
	*(uint32_t *)at = (uint32_t)number;
	return true;
}

static bool store_auto(const struct apus_ctl_setting *s, const char *value, void *at)
{
	uint32_t number;

	if (strcmp(value, "auto") == 0) {
		*(int32_t *)at = APUS_CTL_AUTO;
		return true;
	}
	if (!store_number(s, value, &number))
		return false;
	*(int32_t *)at = (int32_t)number;
	return true;
}

static bool store_duration(const struct apus_ctl_setting *s, const char *value, void *at)
{
	int64_t ns;

	if (apus_ctl_duration_parse(value, &ns) || ns < s->min || ns > s->max)
		return false;
	*(int64_t *)at = ns;
	return true;
}

static bool store_switch(const char *value, void *at)
{
	bool on = strcmp(value, "on") == 0;

	if (!on && strcmp(value, "off") != 0)
		return false;
	*(bool *)at = on;
	return true;
}

static bool store_word(const struct apus_ctl_setting *s, const char *value, void *at)
{
	for (uint32_t i = 0; s->words[i]; i++)
		if (strcmp(s->words[i], value) == 0) {
			*(uint32_t *)at = i;
			return true;
		}
	return false;
}

static bool store_text(const char *value, size_t max_bytes, void *at)
{
	if (strlen(value) > max_bytes || !printable(value))
		return false;
	strcpy(at, value);
	return true;
}

/* Lists are parsed into a copy: a refused one must leave the old list whole. */
static bool store_list(const struct apus_ctl_setting *s, const char *value,
		       struct apus_ctl_config *config)
{
	struct apus_ctl_config copy = *config;
	bool (*take)(struct apus_ctl_config *, char *) = NULL;

	if (!store_text(value, APUS_CTL_TEXT_BYTES, (char *)&copy + s->offset))
		return false;
	switch (s->kind) {
	case APUS_CTL_KIND_PEERS:
		copy.peer_count = 0;
		take = take_peer;
		break;
	case APUS_CTL_KIND_SERVERS:
		copy.server_count = 0;
		take = take_server;
		break;
	case APUS_CTL_KIND_CORES:
		copy.worker_core_count = 0;
		take = take_core;
		break;
	case APUS_CTL_KIND_ALLOW:
		copy.allow.count = 0;
		take = take_allowed;
		break;
	case APUS_CTL_KIND_DENY:
		copy.deny.count = 0;
		take = take_denied;
		break;
	default: return false;
	}
	if (!parse_list(value, take, &copy))
		return false;
	*config = copy;
	return true;
}

static bool store(struct apus_ctl_config *config, const struct apus_ctl_setting *s,
		  const char *value)
{
	void *at = (char *)config + s->offset;

	switch (s->kind) {
	case APUS_CTL_KIND_NUMBER: return store_number(s, value, at);
	case APUS_CTL_KIND_AUTO: return store_auto(s, value, at);
	case APUS_CTL_KIND_DURATION: return store_duration(s, value, at);
	case APUS_CTL_KIND_SWITCH: return store_switch(value, at);
	case APUS_CTL_KIND_WORD: return store_word(s, value, at);
	case APUS_CTL_KIND_TEXT:
		/* A participant's name must fit its record; an interface list may be longer. */
		return store_text(value, at == config->participant_name ? 255 : APUS_CTL_TEXT_BYTES,
				  at);
	case APUS_CTL_KIND_SERVERS:
	case APUS_CTL_KIND_PEERS:
	case APUS_CTL_KIND_CORES:
	case APUS_CTL_KIND_ALLOW:
	case APUS_CTL_KIND_DENY: return store_list(s, value, config);
	}
	return false;
}

static int set(struct apus_ctl_config *config, const char *name, const char *value,
	       struct complaint to)
{
	const struct apus_ctl_setting *s = find(name);

	if (!s) {
		complain(to, "%.64s: no such setting", name);
		return APUS_ENOENT;
	}
	if (store(config, s, value))
		return 0;
	return complain(to, "%s: '%.64s' is not in the range %s%s%s", name, value, s->shown.range,
			*s->shown.unit ? " " : "", s->shown.unit);
}

static int print(const struct apus_ctl_config *config, const struct apus_ctl_setting *s, char *out,
		 size_t out_bytes)
{
	const void *at = (const char *)config + s->offset;
	int written = 0;

	switch (s->kind) {
	case APUS_CTL_KIND_AUTO:
		if (*(const int32_t *)at == APUS_CTL_AUTO) {
			written = snprintf(out, out_bytes, "auto");
			break;
		}
		/* fall through */
	case APUS_CTL_KIND_NUMBER:
		written = snprintf(out, out_bytes, "%u", *(const uint32_t *)at);
		break;
	case APUS_CTL_KIND_DURATION:
		return apus_ctl_duration_format(*(const int64_t *)at, out, out_bytes);
	case APUS_CTL_KIND_SWITCH:
		written = snprintf(out, out_bytes, "%s", *(const bool *)at ? "on" : "off");
		break;
	case APUS_CTL_KIND_WORD:
		written = snprintf(out, out_bytes, "%s", s->words[*(const uint32_t *)at]);
		break;
	default: written = snprintf(out, out_bytes, "%s", (const char *)at);
	}
	return written < 0 || (size_t)written >= out_bytes ? APUS_ELIMIT : 0;
}

/* ---- configurations ----------------------------------------------------------------------------- */

void apus_ctl_config_default(struct apus_ctl_config *config)
{
	memset(config, 0, sizeof(*config));
	for (size_t i = 0; i < apus_ctl_setting_count; i++)
		store(config, &apus_ctl_settings[i], apus_ctl_settings[i].shown.default_value);
}

const struct apus_ctl_config *apus_ctl_config_of(const struct apus_config *config)
{
	return &config->parsed;
}

/* Whether a setting was changed from its default, by its printed text. */
static bool is_default(const struct apus_ctl_config *config, const struct apus_ctl_setting *s)
{
	char value[APUS_CTL_TEXT_BYTES + 1];

	return print(config, s, value, sizeof(value)) == 0 &&
	       strcmp(value, s->shown.default_value) == 0;
}

/* What is set but has no effect is refused: settings of a port without one, of sockets without any. */
static int check_transport(const struct apus_ctl_config *c, struct complaint to)
{
	bool dpdk = c->transport == APUS_CTL_TRANSPORT_DPDK;
	const char *idle = dpdk ? "socket." : "dpdk.";

	for (size_t i = 0; i < apus_ctl_setting_count; i++)
		if (strncmp(apus_ctl_settings[i].shown.name, idle, strlen(idle)) == 0 &&
		    !is_default(c, &apus_ctl_settings[i]))
			return complain(to, "%s: has no effect with transport = %s",
					apus_ctl_settings[i].shown.name,
					find("transport")->words[c->transport]);
	if (!dpdk)
		return 0;
	if (!is_default(c, find("interfaces")))
		return complain(to, "interfaces: has no effect with transport = dpdk; "
				    "dpdk.port names the interface");
	if (!c->dpdk_port[0])
		return complain(to, "dpdk.port: is needed with transport = dpdk");
	if (c->ipv6 ? !c->dpdk_ipv6[0] : !c->dpdk_address[0])
		return complain(to, "%s: is needed with transport = dpdk",
				c->ipv6 ? "dpdk.ipv6" : "dpdk.address");
	if (c->ipv6 ? c->dpdk_address[0] : c->dpdk_ipv6[0])
		return complain(to, "%s: has no effect with transport.ipv6 = %s",
				c->ipv6 ? "dpdk.address" : "dpdk.ipv6", c->ipv6 ? "on" : "off");
	return 0;
}

int apus_ctl_config_check(const struct apus_ctl_config *config, char *why, size_t why_bytes)
{
	struct complaint to = {why, why_bytes};

	if (config->lease_ns != APUS_INFINITE_NS &&
	    config->lease_ns / 2 < config->announce_period_ns)
		return complain(to, "lease: must be at least twice announce.period, or one lost "
				    "announcement ends it");
	/* Domain 232 has room up to port 65535: 7400 + 250 · 232 + 11 + 2 · 62. */
	if (7411 + 250 * config->domain + 2 * (uint32_t)(config->participant_index + 1) > 65537)
		return complain(to, "participant.index: %d has no ports in domain %u",
				config->participant_index, config->domain);
	if (config->worker_core_count && config->worker_core_count < config->worker_count)
		return complain(to, "worker.cores: names %u cores for %u workers",
				config->worker_core_count, config->worker_count);
	if (config->super_client && config->server_count == 0)
		return complain(to, "discovery.super_client: there are no discovery.servers");
	if (!*config->relay_name || strlen(config->relay_name) > 40 || *config->relay_name == '.' ||
	    strchr(config->relay_name, '/'))
		return complain(to, "worker.name: 1 to 40 bytes without a slash, no dot in front");
	if (config->relay_ring_bytes & (config->relay_ring_bytes - 1))
		return complain(to, "worker.ring_bytes: %u is no power of two",
				config->relay_ring_bytes);
	if (config->history_samples_per_instance > config->history_samples)
		return complain(to,
				"history.samples_per_instance: %u is more than history.samples, %u",
				config->history_samples_per_instance, config->history_samples);
	return check_transport(config, to);
}

struct apus_config *apus_config_create(void)
{
	struct apus_config *config = malloc(sizeof(*config));

	if (config)
		apus_ctl_config_default(&config->parsed);
	return config;
}

void apus_config_destroy(struct apus_config *config)
{
	free(config);
}

int apus_config_set(struct apus_config *config, const char *name, const char *value, char *error,
		    size_t error_bytes)
{
	struct complaint to = {error, error_bytes};

	if (!config || !name || !value)
		return complain(to, "a configuration, a name and a value are needed");
	return set(&config->parsed, name, value, to);
}

int apus_config_get(const struct apus_config *config, const char *name, char *value_out,
		    size_t value_bytes)
{
	const struct apus_ctl_setting *s = find(name);

	return s ? print(&config->parsed, s, value_out, value_bytes) : APUS_ENOENT;
}

const struct apus_setting *apus_config_describe(size_t idx)
{
	return idx < apus_ctl_setting_count ? &apus_ctl_settings[idx].shown : NULL;
}

/* ---- files -------------------------------------------------------------------------------------- */

/* Reads a whole file, NUL-terminated; *content_out is the caller's. */
static int read_file(const char *path, char **content_out, struct complaint to)
{
	FILE *file = fopen(path, "re");
	char *content;
	size_t bytes;

	if (!file) {
		complain(to, "%.200s: cannot be opened", path);
		return APUS_ENOENT;
	}
	content = malloc(FILE_BYTES_MAX + 2);
	bytes = content ? fread(content, 1, FILE_BYTES_MAX + 1, file) : 0;
	if (!content || ferror(file) || bytes > FILE_BYTES_MAX || memchr(content, 0, bytes)) {
		free(content);
		fclose(file);
		return complain(to, "%.200s: cannot be read, is no text, or exceeds %d bytes", path,
				FILE_BYTES_MAX);
	}
	content[bytes] = 0;
	fclose(file);
	*content_out = content;
	return 0;
}

/* A file under way: lines are applied to `at`, the configuration or, in a section of somebody else, a copy nobody
 * reads: they are checked all the same. */
struct reading {
	struct apus_ctl_config wanted, unwanted;
	struct apus_ctl_config *at;
	enum apus_config_section section;
};

static int enter_section(struct reading *r, char *line, struct complaint to)
{
	static const char *const names[] = {
		[APUS_CONFIG_APPLICATION] = "[application]",
		[APUS_CONFIG_WORKER] = "[worker]",
	};

	for (size_t i = 0; i < APUS_ARRAY_LENGTH(names); i++) {
		if (strcmp(line, names[i]) != 0)
			continue;
		r->at = i == r->section ? &r->wanted : &r->unwanted;
		return 0;
	}
	return complain(to, "'%.64s' is no section: there are [application] and [worker]", line);
}

/* Applies one line; blank lines and comments change nothing. */
static int apply_line(struct reading *r, char *line, struct complaint to)
{
	char *equals;

	line[strcspn(line, "#")] = 0;
	line = trim(line);
	if (!*line)
		return 0;
	if (*line == '[')
		return enter_section(r, line, to);
	equals = strchr(line, '=');
	if (!equals)
		return complain(to, "'%.64s' is not of the form name = value", line);
	*equals = 0;
	return set(r->at, trim(line), trim(equals + 1), to) ? APUS_EINVAL : 0;
}

int apus_config_load_section(struct apus_config *config, enum apus_config_section section,
			     const char *path, char *error, size_t error_bytes)
{
	struct complaint to = {error, error_bytes};
	char *content = NULL, *rest, *line, reason[256] = "";
	struct reading *r;
	unsigned number = 0;
	int result;

	if (!config || !path || section < APUS_CONFIG_APPLICATION || section > APUS_CONFIG_WORKER)
		return complain(to, "a configuration, a path and a section are needed");
	result = read_file(path, &content, to);
	if (result)
		return result;
	r = malloc(sizeof(*r));
	if (!r) {
		free(content);
		return APUS_ENOMEM;
	}
	*r = (struct reading){config->parsed, config->parsed, &r->wanted, section};
	rest = content;
	while (!result && (line = strsep(&rest, "\n"))) {
		number++;
		result = apply_line(r, line, (struct complaint){reason, sizeof(reason)});
	}
	if (result)
		complain(to, "%.200s:%u: %s", path, number, reason);
	else
		config->parsed = r->wanted;
	free(content);
	free(r);
	return result;
}

int apus_config_load(struct apus_config *config, const char *path, char *error, size_t error_bytes)
{
	return apus_config_load_section(config, APUS_CONFIG_APPLICATION, path, error, error_bytes);
}

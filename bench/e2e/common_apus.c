/* SPDX-License-Identifier: Apache-2.0 */
/* What is Apus of the shared parts, and the report's head; see common.h. Apart, so that programs of other
 * implementations do without libapus. */
#include "common.h"

#include "bench/cpu.h"

#include <commit.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>

/* ---- endpoints ---- */

void sized_type_init(struct sized_type *t, uint32_t bytes)
{
	memset(t, 0, sizeof(*t));
	snprintf(t->name, sizeof(t->name), "Bench%u", bytes);
	t->octets = (struct apus_type){.kind = APUS_KIND_ARRAY,
				       .size_bytes = bytes - 8,
				       .align_bytes = 1,
				       .bound = bytes - 8,
				       .element = &apus_type_octet};
	t->members[0] = (struct apus_member){.name = "number", .type = &apus_type_uint64};
	t->members[1] = (struct apus_member){
		.name = "octets", .type = &t->octets, .offset_bytes = 8, .id = 1};
	t->type = (struct apus_type){.name = t->name,
				     .kind = APUS_KIND_STRUCT,
				     .extensibility = APUS_FINAL,
				     .size_bytes = bytes,
				     .align_bytes = 8,
				     .plain_xcdr1 = true, /* as a generator would say */
				     .plain_xcdr2 = true,
				     .members = t->members,
				     .member_count = 2};
	errno = 0;
	if (apus_type_check(&t->type) != 0)
		die("the sample type is refused");
}

static void set(struct apus_config *config, const char *name, const char *value)
{
	char error[256] = "";

	errno = 0;
	if (apus_config_set(config, name, value, error, sizeof(error)) != 0)
		die(error);
}

static void set_pair(struct apus_config *config, const char *pair)
{
	const char *equals = strchr(pair, '=');
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)(equals - pair), pair);
	set(config, name, equals + 1);
}

struct apus_participant *open_participant(uint32_t domain, const char *transport,
					  const char *const *settings)
{
	struct apus_config *config = apus_config_create();
	struct apus_participant *p = NULL;
	char text[16], why[256] = "";

	errno = 0;
	if (!config)
		die("no memory");
	snprintf(text, sizeof(text), "%u", domain);
	set(config, "domain", text);
	set(config, "worker.mode", "driven");
	if (transport) {
		set(config, "interfaces", "lo");
		set(config, "transport", transport);
	}
	while (settings && *settings)
		set_pair(config, *settings++);
	errno = 0;
	if (apus_participant_create(config, &p, why, sizeof(why)) != 0)
		die(why);
	apus_config_destroy(config);
	return p;
}

static struct apus_endpoint_options options_for(char *topic, size_t topic_bytes, const char *name,
						const struct sized_type *type, uint32_t bytes,
						const struct apus_qos *qos)
{
	snprintf(topic, topic_bytes, "%s_%u_%s", name, bytes,
		 qos->reliability == APUS_RELIABLE ? "reliable" : "best_effort");
	return (struct apus_endpoint_options){.topic = topic, .type = &type->type, .qos = qos};
}

struct apus_writer *open_writer(struct apus_participant *p, const char *name,
				const struct sized_type *type, uint32_t bytes, struct apus_qos *qos)
{
	char topic[64];
	struct apus_endpoint_options o = options_for(topic, sizeof(topic), name, type, bytes, qos);
	struct apus_writer *w = NULL;
	int rc;

	o.loans = 1;
	rc = apus_writer_create(p, &o, &w);

	errno = 0;
	if (rc != 0)
		die(apus_strerror(rc));
	return w;
}

struct apus_reader *open_reader(struct apus_participant *p, const char *name,
				const struct sized_type *type, uint32_t bytes, struct apus_qos *qos)
{
	char topic[64];
	struct apus_endpoint_options o = options_for(topic, sizeof(topic), name, type, bytes, qos);
	struct apus_reader *r = NULL;
	int rc = apus_reader_create(p, &o, &r);

	errno = 0;
	if (rc != 0)
		die(apus_strerror(rc));
	return r;
}

struct sockaddr_in loopback_address(uint16_t port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htons(port),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

int open_socket(int receive_bytes, uint16_t *port_out)
{
	struct sockaddr_in address = loopback_address(0);
	socklen_t bytes = sizeof(address);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, bytes) != 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &bytes) != 0)
		die("plain socket");
	if (receive_bytes > 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
	*port_out = ntohs(address.sin_port);
	return fd;
}

/* ---- context ---- */

static void print_context_json(const char *benchmark, const int core[2])
{
	struct utsname uts;
	char model[256];

	uname(&uts);
	cpu_model(model, sizeof(model));
	printf("{\"benchmark\":\"%s\",\"apus\":\"%s\",\"commit\":\"%s\",\"cpu\":\"%s\","
	       "\"kernel\":\"%s\",\"cores\":[%d,%d]",
	       benchmark, apus_version(), BENCH_COMMIT, model, uts.release, core[0], core[1]);
}

static void print_context_text(const int core[2])
{
	struct utsname uts;
	char model[256];

	uname(&uts);
	cpu_model(model, sizeof(model));
	printf("Apus %s (%s), %s, kernel %s, cores %d and %d\n", apus_version(), BENCH_COMMIT,
	       model, uts.release, core[0], core[1]);
}

/* The part of the participant's report that tells of its worker's transport. */
static void transport_of(const struct apus_participant *p, char *text_out, size_t text_bytes)
{
	char report[4096], *line;

	snprintf(text_out, text_bytes, "unknown");
	if (apus_participant_report(p, report, sizeof(report)) != 0)
		return;
	line = strstr(report, "worker.0: ");
	if (!line)
		return;
	line += strlen("worker.0: ");
	line[strcspn(line, "\n\"\\")] = '\0';
	snprintf(text_out, text_bytes, "%s", line);
}

void print_head(const char *benchmark, const struct options *options,
		const struct apus_participant *participant, const double *line_ns,
		const char *columns)
{
	char transport[128];

	transport_of(participant, transport, sizeof(transport));
	if (options->json) {
		print_context_json(benchmark, options->core);
		printf(",\"transport\":\"%s\",\"rounds\":%u,\"cache_line_one_way_ns\":[", transport,
		       options->rounds);
	} else {
		print_context_text(options->core);
		printf("transport: %s\ncache line, one way, in each round, ns:", transport);
	}
	for (uint32_t i = 0; i < options->rounds; i++)
		printf("%s%.0f", !options->json ? " " : i ? "," : "", line_ns[i]);
	if (options->json)
		printf("],\"results\":[");
	else
		printf("\n\n%s\n", columns);
}

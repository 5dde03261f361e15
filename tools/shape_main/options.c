/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of shape_main. Its words are those the OMG's interoperability test drives all
 * implementations with, so they do not follow the house's own tools: numbers mean what the test says
 * they mean (-k 0 is KEEP_ALL, -s -1 is SHARED), and whatever is unknown or contradictory ends the
 * program before a participant exists.
 */
#include "tools/shape_main/options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS INT64_C(1000000)

#define TOPICS_MAX    64
#define INSTANCES_MAX 4096
#define EXTRA_MAX     (130000)

/* Long options without a letter. */
enum {
	OPT_WRITE_PERIOD = 256,
	OPT_READ_PERIOD,
	OPT_FINAL_STATE,
	OPT_SCOPE,
	OPT_COHERENT,
	OPT_ORDERED,
	OPT_COHERENT_COUNT,
	OPT_EXTRA,
	OPT_TAKE_READ,
	OPT_TIME_FILTER,
	OPT_LIFESPAN,
	OPT_ITERATIONS,
	OPT_INSTANCES,
	OPT_TOPICS,
	OPT_ANNOUNCE,
	OPT_FRAGMENT,
	OPT_CFT,
	OPT_MODULO,
};

static const struct option long_options[] = {
	{"help", no_argument, NULL, 'h'},
	{"write-period", required_argument, NULL, OPT_WRITE_PERIOD},
	{"read-period", required_argument, NULL, OPT_READ_PERIOD},
	{"final-instance-state", required_argument, NULL, OPT_FINAL_STATE},
	{"access-scope", required_argument, NULL, OPT_SCOPE},
	{"coherent", no_argument, NULL, OPT_COHERENT},
	{"ordered", no_argument, NULL, OPT_ORDERED},
	{"coherent-sample-count", required_argument, NULL, OPT_COHERENT_COUNT},
	{"additional-payload-size", required_argument, NULL, OPT_EXTRA},
	{"take-read", no_argument, NULL, OPT_TAKE_READ},
	{"time-filter", required_argument, NULL, OPT_TIME_FILTER},
	{"lifespan", required_argument, NULL, OPT_LIFESPAN},
	{"num-iterations", required_argument, NULL, OPT_ITERATIONS},
	{"num-instances", required_argument, NULL, OPT_INSTANCES},
	{"num-topics", required_argument, NULL, OPT_TOPICS},
	{"periodic-announcement", required_argument, NULL, OPT_ANNOUNCE},
	{"datafrag-size", required_argument, NULL, OPT_FRAGMENT},
	{"cft", required_argument, NULL, OPT_CFT},
	{"size-modulo", required_argument, NULL, OPT_MODULO},
	{NULL, 0, NULL, 0},
};

static const char help[] =
	"Usage: shape_main -P|-S -t TOPIC [options]\n"
	"Publishes or subscribes to shapes, as the DDS interoperability test drives it.\n"
	"\n"
	"  -P | -S                      publish | subscribe\n"
	"  -t NAME                      topic\n"
	"  -d N                         domain (0)\n"
	"  -c COLOR                     publisher: key (BLUE); subscriber: take only color = COLOR\n"
	"  -b | -r                      best effort | reliable (-r)\n"
	"  -k N                         history depth; 0: keep all\n"
	"  -f MS                        deadline; 0: none\n"
	"  -s N                         ownership: -1 shared (default), else exclusive, strength N\n"
	"  -p NAME                      partition\n"
	"  -D v|l|t|p                   volatile (default), transient local, transient, persistent\n"
	"  -x 1|2                       representation: XCDR1 (default), XCDR2\n"
	"  -w                           print what is written\n"
	"  -z N                         shapesize (20); 0: 1, 2, 3 ... by round\n"
	"  -R                           read instead of take\n"
	"  -v e|d                       verbosity\n"
	"  --write-period MS            pause between rounds of writing (33)\n"
	"  --read-period MS             pause between rounds of reading (100)\n"
	"  --time-filter MS             subscriber: minimum separation\n"
	"  --lifespan MS                publisher: lifespan\n"
	"  --num-iterations N           end after N rounds\n"
	"  --num-instances N            keys a round: COLOR, COLOR1, COLOR2 ...\n"
	"  --num-topics N               topics: NAME, NAME1, NAME2 ...\n"
	"  --final-instance-state u|d   unregister or dispose all instances at the end\n"
	"  --access-scope i|t|g         instance, topic, group\n"
	"  --coherent, --ordered        coherent and ordered access\n"
	"  --coherent-sample-count N    rounds a coherent set\n"
	"  --additional-payload-size N  bytes of the extra member\n"
	"  --take-read                  take or read everything, not instance by instance\n"
	"  --periodic-announcement MS   period of participant announcements\n"
	"  --datafrag-size N            bytes of a fragment\n"
	"  --cft EXPR                   subscriber: content filter\n"
	"  --size-modulo N              with -z 0: size = size mod N + 1\n"
	"  -h, --help                   this text\n"
	"\n"
	"Settings of the library come from the file that APUS_CONFIG names.\n";

/* Complains; the parser's callers hand the false on. */
static bool wrong(const char *what, const char *value)
{
	fprintf(stderr, "shape_main: %s: '%s' (try --help)\n", what, value);
	return false;
}

static bool number(const char *what, const char *text, long min, long max, long *out)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < min || value > max)
		return wrong(what, text);
	*out = value;
	return true;
}

static bool count(const char *what, const char *text, long min, long max, uint32_t *out)
{
	long value;

	if (!number(what, text, min, max, &value))
		return false;
	*out = (uint32_t)value;
	return true;
}

/* Milliseconds into nanoseconds; `none` is what 0 stands for. */
static bool period(const char *what, const char *text, int64_t none, int64_t *ns_out)
{
	long ms;

	if (!number(what, text, 0, INT_MAX, &ms))
		return false;
	*ns_out = ms ? ms * NS_PER_MS : none;
	return true;
}

/* One letter of `letters`; its position. */
static bool letter(const char *what, const char *text, const char *letters, long *idx_out)
{
	const char *at = *text ? strchr(letters, *text) : NULL;

	if (!at || text[1])
		return wrong(what, text);
	*idx_out = at - letters;
	return true;
}

static bool take_history(struct apus_qos *qos, const char *text)
{
	uint32_t depth;

	if (!count("-k", text, 0, INT_MAX, &depth))
		return false;
	qos->history = depth ? APUS_KEEP_LAST : APUS_KEEP_ALL;
	if (depth)
		qos->depth = depth;
	return true;
}

static bool take_ownership(struct apus_qos *qos, const char *text)
{
	long strength;

	if (!number("-s", text, -1, INT_MAX, &strength))
		return false;
	qos->ownership = strength < 0 ? APUS_SHARED : APUS_EXCLUSIVE;
	qos->strength = strength < 0 ? 0 : (int32_t)strength;
	return true;
}

static bool take_representation(struct apus_qos *qos, const char *text)
{
	long idx;

	if (!letter("-x", text, "12", &idx))
		return false;
	qos->representations[0] = idx ? APUS_XCDR2 : APUS_XCDR1;
	qos->representation_count = 1;
	return true;
}

static bool take_letter(struct shape_options *o, int option, const char *text)
{
	static const char *const names[] = {"-D", "--access-scope", "--final-instance-state", "-v"};
	static const char *const letters[] = {"vltp", "itg", "ud", "ed"};
	int which = option == 'D' ? 0 : option == OPT_SCOPE ? 1 : option == OPT_FINAL_STATE ? 2 : 3;
	long idx;

	if (!letter(names[which], text, letters[which], &idx))
		return false;
	switch (which) {
	case 0: o->qos.durability = (uint8_t)idx; break;
	case 1: o->qos.access_scope = (uint8_t)idx; break;
	case 2:
		o->final_state = idx ? FINAL_DISPOSE : FINAL_UNREGISTER;
		o->qos.autodispose = idx != 0;
		break;
	default: o->verbose = idx == 1; break;
	}
	return true;
}

static bool take_size(struct shape_options *o, const char *text)
{
	long size;

	if (!number("-z", text, 0, INT_MAX, &size))
		return false;
	o->size = (int32_t)size;
	return true;
}

static bool take_modulo(struct shape_options *o, const char *text)
{
	long modulo;

	if (!number("--size-modulo", text, 1, INT_MAX, &modulo))
		return false;
	o->size_modulo = (int32_t)modulo;
	return true;
}

/* Options that are a count or a time. */
static bool take_number(struct shape_options *o, int option, const char *text)
{
	switch (option) {
	case 'd': return count("-d", text, 0, 232, &o->domain);
	case 'f': return period("-f", text, APUS_INFINITE_NS, &o->qos.deadline_ns);
	case OPT_WRITE_PERIOD: return period("--write-period", text, 0, &o->write_period_ns);
	case OPT_READ_PERIOD: return period("--read-period", text, 0, &o->read_period_ns);
	case OPT_TIME_FILTER: return period("--time-filter", text, 0, &o->qos.time_filter_ns);
	case OPT_LIFESPAN: return period("--lifespan", text, APUS_INFINITE_NS, &o->qos.lifespan_ns);
	case OPT_ITERATIONS: return count("--num-iterations", text, 1, INT_MAX, &o->iterations);
	case OPT_INSTANCES: return count("--num-instances", text, 1, INSTANCES_MAX, &o->instances);
	case OPT_TOPICS: return count("--num-topics", text, 1, TOPICS_MAX, &o->topics);
	case OPT_COHERENT_COUNT:
		return count("--coherent-sample-count", text, 0, INT_MAX, &o->coherent_rounds);
	case OPT_EXTRA:
		return count("--additional-payload-size", text, 0, EXTRA_MAX, &o->extra_bytes);
	case OPT_ANNOUNCE:
		return count("--periodic-announcement", text, 0, INT_MAX, &o->announcement_ms);
	case OPT_FRAGMENT: return count("--datafrag-size", text, 0, 64000, &o->fragment_bytes);
	default: return false;
	}
}

static bool take_flag(struct shape_options *o, int option)
{
	switch (option) {
	case 'P': o->publish = true; return true;
	case 'S': o->subscribe = true; return true;
	case 'b': o->qos.reliability = APUS_BEST_EFFORT; return true;
	case 'r': o->qos.reliability = APUS_RELIABLE; return true;
	case 'w': o->print_written = true; return true;
	case 'R': o->keep_samples = true; return true;
	case OPT_COHERENT: o->qos.coherent_access = true; return true;
	case OPT_ORDERED: o->qos.ordered_access = true; return true;
	case OPT_TAKE_READ: o->take_all = true; return true;
	default: return false;
	}
}

static bool take_option(struct shape_options *o, int option, const char *text)
{
	if (!text)
		return take_flag(o, option);
	switch (option) {
	case 't': o->topic = text; return true;
	case 'c': o->color = text; return true;
	case 'p': o->partition = text; return true;
	case OPT_CFT: o->filter = text; return true;
	case 'k': return take_history(&o->qos, text);
	case 's': return take_ownership(&o->qos, text);
	case 'x': return take_representation(&o->qos, text);
	case 'z': return take_size(o, text);
	case OPT_MODULO: return take_modulo(o, text);
	case 'D':
	case 'v':
	case OPT_SCOPE:
	case OPT_FINAL_STATE: return take_letter(o, option, text);
	default: return take_number(o, option, text);
	}
}

static bool consistent(const struct shape_options *o)
{
	if (o->publish == o->subscribe)
		return wrong("publisher or subscriber, one of them", o->publish ? "-P -S" : "");
	if (!o->topic || !*o->topic)
		return wrong("a topic is required", "-t");
	if (o->color && strlen(o->color) > 118)
		return wrong("-c: too long", o->color);
	if (o->publish && o->filter)
		return wrong("a publisher has no filter", "--cft");
	if (o->publish && o->qos.time_filter_ns)
		return wrong("a publisher has no minimum separation", "--time-filter");
	if (o->subscribe && o->qos.lifespan_ns != APUS_INFINITE_NS)
		return wrong("a subscriber offers no lifespan", "--lifespan");
	if (o->subscribe && o->filter && o->color)
		return wrong("one content filter at a time", "-c --cft");
	if (o->size_modulo && o->size)
		return wrong("needs -z 0", "--size-modulo");
	return true;
}

static void set_defaults(struct shape_options *o)
{
	memset(o, 0, sizeof(*o));
	apus_qos_writer_default(&o->qos);
	o->qos.reliability = APUS_RELIABLE;
	o->qos.representations[0] = APUS_XCDR1;
	o->qos.representation_count = 1;
	o->size = 20;
	o->instances = 1;
	o->topics = 1;
	o->write_period_ns = 33 * NS_PER_MS;
	o->read_period_ns = 100 * NS_PER_MS;
}

int shape_options_parse(int argc, char **argv, struct shape_options *options_out)
{
	int option;

	set_defaults(options_out);
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":PSd:t:c:brk:f:s:p:D:x:wz:Rv:h", long_options,
				     NULL)) != -1) {
		if (option == 'h') {
			fputs(help, stdout);
			return 0;
		}
		if (option == '?' || option == ':') {
			wrong(option == '?' ? "unknown option" : "an argument is missing",
			      argv[optind - 1]);
			return 1;
		}
		if (!take_option(options_out, option, optarg))
			return 1;
	}
	if (optind < argc) {
		wrong("unexpected argument", argv[optind]);
		return 1;
	}
	if (!consistent(options_out))
		return 1;
	/* The strength is the writer's word; a reader only asks for exclusive ownership. */
	if (options_out->subscribe)
		options_out->qos.strength = 0;
	return -1;
}

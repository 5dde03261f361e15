/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The discovery state machine; see the header.
 *
 * Per participant it keeps, beside the graph's slot of the same number, when it was heard, whether it has
 * proved itself, what went in and out, and when it is to be answered.
 */
#include "control/discovery_internal.h"

#include "base/fresh.h"

#include <stdlib.h>

/* Longest random delay of an answer: spreads the answers of a domain's participants to one newcomer. So much
 * for each participant known, since each of them answers, too. */
#define ANSWER_JITTER_NS     (APUS_NS_PER_MS / 2)
#define ANSWER_JITTER_MAX_NS (10 * APUS_NS_PER_MS)
/* Answers in so much time: bounds what N arrivals at once cost. */
#define ANSWERS_AT_ONCE 8
#define ANSWER_PAUSE_NS (10 * APUS_NS_PER_MS)
/* From so many waiting answers on, one multicast announcement stands for all it reaches. */
#define ANSWERS_MERGED 5
/* RTPS header, INFO_TS and DATA header around an announcement. */
#define ANNOUNCEMENT_HEAD_BYTES 56
/* IP and UDP headers: they reach the address as well, though they do not count as received. */
#define IPV4_HEAD_BYTES 28
#define IPV6_HEAD_BYTES 48
/* What may be sent to an unproved address for each byte received from it. */
#define AMPLIFICATION 3
/* An announcement that is older than the last one may be a straggler. Heard again after so long, and nothing
 * newer in between, it is of a new life on a clock set back. */
#define SUSPICION_NS (APUS_NS_PER_SEC / 2)

/* Room may come and go often: refused records are asked for again at most so often. */
#define ASK_REFUSED_NS APUS_NS_PER_SEC

/* xorshift64*; quality is of no concern, only that two participants differ. */
static int64_t random_below(struct apus_ctl_discovery *d, int64_t bound)
{
	d->random ^= d->random >> 12;
	d->random ^= d->random << 25;
	d->random ^= d->random >> 27;
	return (int64_t)((d->random * UINT64_C(2685821657736338717)) >> 33) % bound;
}

static struct apus_eid sedp_writer(bool is_writer)
{
	return (struct apus_eid){is_writer ? APUS_CTL_EID_PUBLICATIONS_WRITER
					   : APUS_CTL_EID_SUBSCRIPTIONS_WRITER};
}

/* ---- life --------------------------------------------------------------------------------------- */

static int encode_into(struct apus_ctl_discovery *d,
		       const struct apus_wire_participant_record *self, struct payload *out)
{
	int bytes = apus_wire_participant_encode(self, d->scratch.at, sizeof(d->scratch.at));

	if (bytes < 0)
		return bytes;
	out->bytes = (size_t)bytes;
	memcpy(out->at, d->scratch.at, out->bytes);
	return 0;
}

static int encode_self(struct apus_ctl_discovery *d,
		       const struct apus_wire_participant_record *self)
{
	int result = 0;

	if (d->config.server_count) {
		struct apus_wire_participant_record client = *self;

		/* A server and what it tells others of us go by unicast. */
		client.client = d->config.super_client ? APUS_WIRE_SUPER_CLIENT : APUS_WIRE_CLIENT;
		memset(&client.metatraffic_multicast, 0, sizeof(client.metatraffic_multicast));
		result = encode_into(d, &client, &d->client);
		d->client_news = true;
	}
	return result ? result : encode_into(d, self, &d->self);
}

int apus_ctl_discovery_create(const struct apus_ctl_discovery_config *config,
			      const struct apus_ctl_discovery_ops *ops,
			      struct apus_ctl_graph *graph,
			      const struct apus_wire_participant_record *self, struct apus_mono now,
			      struct apus_ctl_discovery **discovery_out)
{
	struct apus_ctl_discovery *d = calloc(1, sizeof(*d));
	int result = APUS_ENOMEM;

	if (config->server_count > APUS_CTL_SERVERS_MAX)
		result = APUS_ELIMIT;
	if (!d || result == APUS_ELIMIT) {
		free(d);
		return result;
	}
	d->config = *config;
	d->ops = *ops;
	d->graph = graph;
	d->prefix = self->prefix;
	d->guid = apus_guid_make(&self->prefix, (struct apus_eid){APUS_CTL_EID_PARTICIPANT});
	d->random = config->seed | 1;
	d->burst_left = config->burst_count;
	d->next_announcement = now;
	d->next_expiry = d->next_answer = NEVER;
	d->next_server_retry = config->server_count ? now : NEVER;
	for (uint32_t i = 0; i < config->server_count; i++)
		d->server[i].addr = config->servers[i];
	d->peers = calloc(config->peer_count + 1, sizeof(*d->peers));
	d->peer = apus_fresh_alloc(apus_ctl_graph_participant_capacity(graph), sizeof(*d->peer));
	if (d->peers && d->peer)
		result = encode_self(d, self);
	if (result) {
		apus_ctl_discovery_destroy(d);
		return result;
	}
	if (config->peer_count)
		memcpy(d->peers, config->peers, config->peer_count * sizeof(*d->peers));
	d->config.peers = d->peers;
	d->config.servers = NULL; /* they are in d->server */
	*discovery_out = d;
	return 0;
}

void apus_ctl_discovery_destroy(struct apus_ctl_discovery *d)
{
	if (!d)
		return;
	free(d->peers);
	apus_fresh_free(d->peer, apus_ctl_graph_participant_capacity(d->graph), sizeof(*d->peer));
	free(d);
}

int apus_ctl_discovery_set_self(struct apus_ctl_discovery *d,
				const struct apus_wire_participant_record *self,
				struct apus_mono now)
{
	int result = encode_self(d, self);

	if (result)
		return result;
	apus_ctl_graph_set_self(d->graph, self);
	d->next_announcement = earlier(d->next_announcement, now);
	return 0;
}

void apus_ctl_discovery_set_policy(struct apus_ctl_discovery *d,
				   const struct apus_ctl_locator_policy *policy)
{
	struct apus_ctl_participant *p = NULL;

	/* What each was reached at, for a moment in its place of the books. */
	while ((p = apus_ctl_graph_next_participant(d->graph, p)))
		peer_of(d, p)->before = p->metatraffic;
	apus_ctl_graph_set_policy(d->graph, policy);
	while ((p = apus_ctl_graph_next_participant(d->graph, p)))
		if (!p->local && !apus_dp_addr_equal(&peer_of(d, p)->before, &p->metatraffic))
			peer_of(d, p)->proved = false;
}

/* ---- announcing --------------------------------------------------------------------------------- */

static void send_to(struct apus_ctl_discovery *d, const struct apus_dp_addr *to)
{
	if (d->client_news)
		apus_ctl_discovery_tell_servers(d, true);
	d->ops.announce(d->ops.user, to, &d->guid, d->self.at, d->self.bytes, false);
	apus_counter_add(&d->counters.announcements_sent, 1);
}

/* Does a multicast announcement of ours reach it, as far as it says? */
static bool hears_multicast(const struct apus_ctl_discovery *d,
			    const struct apus_ctl_participant *p)
{
	return d->config.multicast.family && p->record.metatraffic_multicast.count;
}

static bool is_configured(const struct apus_ctl_discovery *d, const struct apus_dp_addr *addr)
{
	for (uint32_t i = 0; i < d->config.peer_count; i++)
		if (apus_dp_addr_equal(&d->peers[i], addr))
			return true;
	return false;
}

static uint64_t answer_bytes(const struct apus_ctl_discovery *d)
{
	return d->self.bytes + ANNOUNCEMENT_HEAD_BYTES;
}

/* Books what is about to be sent to a participant; false if it could amplify. reserved: what must still fit
 * behind it. */
static bool book(struct apus_ctl_discovery *d, const struct apus_ctl_participant *p, uint64_t bytes,
		 uint64_t reserved)
{
	uint64_t head = p->metatraffic.family == AF_INET ? IPV4_HEAD_BYTES : IPV6_HEAD_BYTES;
	struct peer *peer = peer_of(d, p);

	bytes += head;
	if (reserved)
		reserved += head;
	if (!peer->proved &&
	    peer->sent_bytes + bytes + reserved >= AMPLIFICATION * peer->received_bytes)
		return false;
	peer->sent_bytes += bytes;
	return true;
}

bool apus_ctl_discovery_may_send(struct apus_ctl_discovery *d, const struct apus_prefix *dest,
				 uint32_t bytes)
{
	struct apus_ctl_participant *p = apus_ctl_graph_participant(d->graph, dest);
	struct peer *peer = p ? peer_of(d, p) : NULL;

	/* It understands nothing else before our announcement: HEARTBEATs must not use up what that needs. */
	if (p && (p->local || book(d, p, bytes, peer->answer_due.ns ? answer_bytes(d) : 0)))
		return true;
	if (p)
		peer->withheld = true;
	apus_counter_add(&d->counters.datagrams_withheld, 1);
	return false;
}

/* Sends to a participant's own address, unless that could amplify. */
static void send_directly(struct apus_ctl_discovery *d, const struct apus_ctl_participant *p)
{
	if (!p->metatraffic.family)
		return;
	if (book(d, p, answer_bytes(d), 0))
		send_to(d, &p->metatraffic);
	else
		apus_counter_add(&d->counters.answers_withheld, 1);
}

/* Announces by multicast; whoever hears it needs no answer of his own any more. */
static void send_multicast(struct apus_ctl_discovery *d, struct apus_mono now)
{
	struct apus_ctl_participant *p = NULL;

	send_to(d, &d->config.multicast);
	d->last_multicast = now;
	while ((p = apus_ctl_graph_next_participant(d->graph, p)))
		if (!p->local && hears_multicast(d, p))
			peer_of(d, p)->answer_due.ns = 0;
}

/* One cycle: the group, the configured peers, and whom neither of them reaches. */
static void announce(struct apus_ctl_discovery *d, struct apus_mono now)
{
	struct apus_ctl_participant *p = NULL;

	apus_ctl_discovery_tell_servers(d, true);
	if (d->config.multicast.family)
		send_multicast(d, now);
	for (uint32_t i = 0; i < d->config.peer_count; i++)
		send_to(d, &d->peers[i]);
	while ((p = apus_ctl_graph_next_participant(d->graph, p)))
		if (!p->local && is_peer(p) && !hears_multicast(d, p) &&
		    !is_configured(d, &p->metatraffic))
			send_directly(d, p);
}

void apus_ctl_discovery_depart(struct apus_ctl_discovery *d)
{
	int bytes =
		apus_wire_participant_key_encode(&d->guid, d->scratch.at, sizeof(d->scratch.at));
	struct apus_ctl_participant *p = NULL;
	struct apus_ctl_discovery_ops *ops = &d->ops;

	if (bytes < 0)
		return;
	for (uint32_t i = 0; i < d->config.server_count; i++)
		ops->announce_client(ops->user, &d->server[i].addr, &d->guid, d->scratch.at,
				     (size_t)bytes, true);
	if (d->config.multicast.family)
		ops->announce(ops->user, &d->config.multicast, &d->guid, d->scratch.at,
			      (size_t)bytes, true);
	for (uint32_t i = 0; i < d->config.peer_count; i++)
		ops->announce(ops->user, &d->peers[i], &d->guid, d->scratch.at, (size_t)bytes,
			      true);
	while ((p = apus_ctl_graph_next_participant(d->graph, p)))
		if (!p->local && !is_server(p) && p->metatraffic.family && peer_of(d, p)->proved &&
		    !is_configured(d, &p->metatraffic))
			ops->announce(ops->user, &p->metatraffic, &d->guid, d->scratch.at,
				      (size_t)bytes, true);
}

/* ---- answers ------------------------------------------------------------------------------------ */

static int64_t jitter(const struct apus_ctl_discovery *d)
{
	int64_t ns = ANSWER_JITTER_NS * apus_ctl_graph_participant_count(d->graph);

	return ns < ANSWER_JITTER_MAX_NS ? ns : ANSWER_JITTER_MAX_NS;
}

static void owe_answer(struct apus_ctl_discovery *d, struct peer *peer, struct apus_mono now)
{
	if (peer->answer_due.ns)
		return;
	peer->answer_due = apus_mono_add(now, 1 + random_below(d, jitter(d)));
	d->next_answer = earlier(d->next_answer, peer->answer_due);
}

/* How many answers wait that one multicast announcement could stand for. */
static uint32_t mergeable(struct apus_ctl_discovery *d)
{
	struct apus_ctl_participant *p = NULL;
	uint32_t count = 0;

	while ((p = apus_ctl_graph_next_participant(d->graph, p)))
		count += !p->local && peer_of(d, p)->answer_due.ns && hears_multicast(d, p);
	return count;
}

/* Answers whoever is due, some at a time; sets when to look again. */
static void answer(struct apus_ctl_discovery *d, struct apus_mono now)
{
	struct apus_mono multicast_again =
		apus_mono_add(d->last_multicast, d->config.burst_period_ns);
	struct apus_ctl_participant *p = NULL;
	struct apus_mono resume;
	uint32_t waiting;

	if (now.ns - d->answers_since.ns >= ANSWER_PAUSE_NS) {
		d->answers_since = now;
		d->answers_sent = 0;
	}
	if (now.ns - d->crowd_since.ns >= d->config.burst_period_ns) {
		d->crowd_since = now;
		d->crowd_answers = 0;
	}
	waiting = mergeable(d);
	if ((waiting >= ANSWERS_MERGED || (waiting && d->crowd_answers >= ANSWERS_MERGED)) &&
	    !apus_mono_before(now, multicast_again))
		send_multicast(d, now);
	d->next_answer = NEVER;
	while ((p = apus_ctl_graph_next_participant(d->graph, p))) {
		struct peer *peer = peer_of(d, p);

		if (p->local || !peer->answer_due.ns)
			continue;
		/* In a crowd it waits for the next announcement that stands for many. */
		if (d->crowd_answers >= ANSWERS_MERGED && hears_multicast(d, p) &&
		    apus_mono_before(now, multicast_again) &&
		    apus_mono_before(peer->answer_due, multicast_again))
			peer->answer_due = multicast_again;
		if (d->answers_sent < ANSWERS_AT_ONCE && !apus_mono_before(now, peer->answer_due)) {
			peer->answer_due.ns = 0;
			d->crowd_answers += hears_multicast(d, p);
			send_directly(d, p);
			d->answers_sent++;
			continue;
		}
		d->next_answer = earlier(d->next_answer, peer->answer_due);
	}
	resume = apus_mono_add(d->answers_since, ANSWER_PAUSE_NS);
	if (d->answers_sent == ANSWERS_AT_ONCE && apus_mono_before(d->next_answer, resume))
		d->next_answer = resume;
}

/* ---- leases ------------------------------------------------------------------------------------- */

/* Removes a participant that is known. A server that goes is sought again; what it told stays. */
void apus_ctl_discovery_forget(struct apus_ctl_discovery *d, const struct apus_ctl_participant *p)
{
	struct server *server = apus_ctl_discovery_server_of(d, p);
	struct apus_prefix prefix = p->record.prefix;

	if (server && server->answered) {
		server->answered = false;
		d->next_server_retry.ns = 0; /* at once */
	}
	apus_ctl_graph_remove_participant(d->graph, &prefix);
}

/* Its announcements have not been heard for a lease; samples or acknowledgements of it may have. */
static struct apus_mono look_again(const struct apus_ctl_discovery *d,
				   const struct apus_ctl_participant *p, struct peer *peer)
{
	if (d->ops.heard) {
		struct apus_mono heard = d->ops.heard(d->ops.user, &p->record.prefix);

		if (apus_mono_before(peer->heard, heard))
			peer->heard = heard;
	}
	return expiry(p, peer);
}

static void expire(struct apus_ctl_discovery *d, struct apus_mono now)
{
	struct apus_ctl_participant *p = apus_ctl_graph_next_participant(d->graph, NULL), *next;
	bool any = false;

	d->next_expiry = NEVER;
	for (; p; p = next) {
		struct apus_mono end = p->local ? NEVER : expiry(p, peer_of(d, p));

		next = apus_ctl_graph_next_participant(d->graph, p);
		if (!apus_mono_before(now, end))
			end = look_again(d, p, peer_of(d, p));
		if (apus_mono_before(now, end)) {
			d->next_expiry = earlier(d->next_expiry, end);
			continue;
		}
		apus_ctl_discovery_forget(d, p);
		apus_counter_add(&d->counters.lapsed, 1);
		any = true;
	}
	if (any)
		apus_ctl_discovery_set_probe(d);
}

/* ---- what found no room ------------------------------------------------------------------------- */

static void note_refused(struct apus_ctl_discovery *d, const struct apus_prefix *source,
			 bool is_writer, apus_seq seq)
{
	struct apus_ctl_participant *p = apus_ctl_graph_participant(d->graph, source);
	apus_seq *lowest = p ? &peer_of(d, p)->refused[is_writer] : NULL;

	if (!lowest || (*lowest && *lowest <= seq))
		return;
	*lowest = seq;
	if (!d->any_refused)
		d->freed_seen = apus_ctl_graph_freed(d->graph);
	d->any_refused = true;
}

static void ask_participant(struct apus_ctl_discovery *d, const struct apus_ctl_participant *p)
{
	struct peer *peer = peer_of(d, p);

	for (int is_writer = 0; is_writer < 2; is_writer++) {
		struct apus_guid writer = apus_guid_make(&p->record.prefix, sedp_writer(is_writer));
		apus_seq from = peer->refused[is_writer];

		peer->refused[is_writer] = 0;
		if (from == 0)
			continue;
		d->ops.ask_again(d->ops.user, &writer, from);
		apus_counter_add(&d->counters.asked_again, 1);
	}
}

/* If something has gone since, there may be room now. What is refused once more is noted once more. Returns when to
 * look again. */
static struct apus_mono ask_refused(struct apus_ctl_discovery *d, struct apus_mono now)
{
	struct apus_ctl_participant *p = NULL;

	if (!d->any_refused || !d->ops.ask_again || apus_ctl_graph_freed(d->graph) == d->freed_seen)
		return NEVER;
	if (apus_mono_before(now, d->next_refused))
		return d->next_refused;
	d->any_refused = false;
	d->next_refused = apus_mono_add(now, ASK_REFUSED_NS);
	while ((p = apus_ctl_graph_next_participant(d->graph, p)))
		if (!p->local)
			ask_participant(d, p);
	return NEVER;
}

struct apus_mono apus_ctl_discovery_turn(struct apus_ctl_discovery *d, struct apus_mono now)
{
	struct apus_mono refused;

	if (!apus_mono_before(now, d->next_expiry))
		expire(d, now);
	if (!apus_mono_before(now, d->next_server_retry))
		apus_ctl_discovery_retry_servers(d, now);
	if (!apus_mono_before(now, d->next_announcement)) {
		announce(d, now);
		d->burst_left -= d->burst_left > 0;
		/* From now, not from when it was due: a control thread that was held up does not
		 * make up for what it missed. */
		d->next_announcement =
			apus_mono_add(now, d->burst_left ? d->config.burst_period_ns
							 : d->config.announce_period_ns);
	}
	if (!apus_mono_before(now, d->next_answer))
		answer(d, now);
	refused = ask_refused(d, now);
	return earlier(earlier(d->next_announcement, d->next_server_retry),
		       earlier(earlier(d->next_expiry, d->next_answer), refused));
}

/* ---- what comes in ------------------------------------------------------------------------------ */

/* What an announcement says about the life of a known participant. */
enum life { SAME_LIFE, FORMER_LIFE, NEW_LIFE };

/* Interop: seen to repeat an announcement with its first source timestamp, and to announce a change under
 * the next sequence number: Cyclone DDS 0.10.2, Fast DDS 2.9.1. Others might stamp every repetition. */
static bool keeps_stamps(uint16_t vendor)
{
	return vendor == APUS_WIRE_VENDOR || vendor == 0x0110 || vendor == 0x010f;
}

static enum life suspect(struct peer *peer, const struct apus_ctl_heard *h, struct apus_mono now)
{
	if (peer->suspected.ns && peer->suspect_seq == h->seq &&
	    peer->suspect_stamp.ns == h->stamp.ns)
		return now.ns - peer->suspected.ns >= SUSPICION_NS ? NEW_LIFE : FORMER_LIFE;
	peer->suspected = now;
	peer->suspect_seq = h->seq;
	peer->suspect_stamp = h->stamp;
	return FORMER_LIFE;
}

static enum life judge_life(struct peer *peer, const struct apus_ctl_heard *h, uint16_t vendor,
			    struct apus_mono now)
{
	if (!keeps_stamps(vendor) || h->stamp.ns == APUS_WALL_NONE.ns ||
	    peer->stamp.ns == APUS_WALL_NONE.ns)
		return SAME_LIFE;
	if (h->stamp.ns == peer->stamp.ns && h->seq == peer->seq)
		return SAME_LIFE;
	if (h->stamp.ns > peer->stamp.ns)
		return h->seq > peer->seq ? SAME_LIFE : NEW_LIFE;
	return suspect(peer, h, now);
}

static int refuse_foreign(struct apus_ctl_discovery *d, int result)
{
	apus_counter_add(&d->counters.foreign, 1);
	return result;
}

/* Takes a participant out if this announcement is of its next life; refuses what is of a former one. */
static int end_former_life(struct apus_ctl_discovery *d, const struct apus_ctl_participant *p,
			   uint16_t vendor, const struct apus_ctl_heard *heard,
			   struct apus_mono now)
{
	switch (judge_life(peer_of(d, p), heard, vendor, now)) {
	case SAME_LIFE: return 0;
	case FORMER_LIFE: apus_counter_add(&d->counters.outdated, 1); return APUS_ENOENT;
	case NEW_LIFE: break;
	}
	apus_counter_add(&d->counters.restarted, 1);
	apus_ctl_discovery_forget(d, p);
	return 0;
}

int apus_ctl_discovery_keep(struct apus_ctl_discovery *d,
			    const struct apus_wire_participant_record *record,
			    const struct apus_ctl_source *source,
			    const struct apus_ctl_heard *heard, struct apus_mono now,
			    struct apus_ctl_participant **p_inout)
{
	struct apus_dp_addr before = {0};
	struct peer *peer;
	int result;

	if (*p_inout)
		before = (*p_inout)->metatraffic;
	result = apus_ctl_graph_add_participant_as(d->graph, record, source, p_inout);
	if (result < 0)
		return result;
	peer = peer_of(d, *p_inout);
	if (result == APUS_CTL_ADMITTED)
		memset(peer, 0, sizeof(*peer));
	else if (!apus_dp_addr_equal(&before, &(*p_inout)->metatraffic))
		begin(peer);
	peer->heard = now;
	peer->received_bytes += heard->bytes;
	d->next_expiry = earlier(d->next_expiry, expiry(*p_inout, peer));
	return result;
}

static int on_own_word(struct apus_ctl_discovery *d,
		       const struct apus_wire_participant_record *record,
		       const struct apus_ctl_heard *heard, struct apus_mono now)
{
	struct apus_ctl_participant *p = apus_ctl_graph_participant(d->graph, &heard->source);
	const struct apus_ctl_source source = apus_ctl_discovery_source_of(d, record, &heard->from);
	struct peer *peer;
	bool was_relayed;
	int result;

	/* Whoever used its name before spoke from elsewhere. */
	if (p && source.role == APUS_CTL_SERVER && is_peer(p)) {
		apus_ctl_discovery_forget(d, p);
		p = NULL;
	}
	was_relayed = p && is_relayed(p);
	if (p && !was_relayed) {
		result = end_former_life(d, p, record->vendor, heard, now);
		if (result)
			return result;
	}
	result = apus_ctl_discovery_keep(d, record, &source, heard, now, &p);
	if (result < 0)
		return result;
	apus_counter_add(&d->counters.participants_heard, 1);
	peer = peer_of(d, p);
	peer->suspected.ns = 0;
	peer->seq = heard->seq;
	peer->stamp = heard->stamp;
	if (was_relayed) { /* it may know us by the server's word only */
		peer->knows_us = false;
		apus_ctl_discovery_set_probe(d);
	}
	if (!peer->knows_us && is_peer(p))
		owe_answer(d, peer, now);
	/* There may be room now for what began the conversation: no need to wait for a timer. */
	if (peer->withheld && !peer->proved && d->ops.greet) {
		peer->withheld = false;
		d->ops.greet(d->ops.user, &heard->source);
	}
	return result;
}

int apus_ctl_discovery_on_participant(struct apus_ctl_discovery *d,
				      const struct apus_wire_participant_record *record,
				      const struct apus_ctl_heard *heard, struct apus_mono now)
{
	uint32_t server = 0;

	if (apus_prefix_equal(&record->prefix, &d->prefix)) {
		apus_counter_add(&d->counters.own, 1);
		return APUS_EAGAIN;
	}
	if (!apus_prefix_equal(&record->prefix, &heard->source)) {
		server = apus_ctl_discovery_trusted_bit(d, &heard->source);
		if (!server)
			return refuse_foreign(d, APUS_EPERM);
	}
	if (record->has_domain && record->domain != d->config.domain)
		return refuse_foreign(d, APUS_EINVAL);
	return server ? apus_ctl_discovery_on_relayed(d, record, heard, server, now)
		      : on_own_word(d, record, heard, now);
}

/* Who a sender may tell of: itself, and a trusted server those it has told of. Nobody tells us of ourselves. */
enum say { SAY_NOTHING, SAY_OWN, SAY_RELAYED, SAY_KNOWN };

static enum say may_tell_of(struct apus_ctl_discovery *d, const struct apus_guid *guid,
			    const struct apus_prefix *source)
{
	struct apus_prefix prefix = apus_guid_prefix(guid);
	const struct apus_ctl_participant *p;

	if (apus_prefix_equal(source, &d->prefix) || apus_prefix_equal(&prefix, &d->prefix))
		return SAY_NOTHING;
	if (apus_prefix_equal(&prefix, source))
		return SAY_OWN;
	if (!apus_ctl_discovery_trusted_bit(d, source))
		return SAY_NOTHING;
	p = apus_ctl_graph_participant(d->graph, &prefix);
	return !p || is_relayed(p) ? SAY_RELAYED : SAY_KNOWN;
}

int apus_ctl_discovery_on_participant_gone(struct apus_ctl_discovery *d,
					   const struct apus_guid *gone,
					   const struct apus_prefix *source)
{
	struct apus_prefix prefix = apus_guid_prefix(gone);
	enum say say = may_tell_of(d, gone, source);
	struct apus_ctl_participant *p;

	if (say == SAY_NOTHING)
		return refuse_foreign(d, APUS_EPERM);
	p = apus_ctl_graph_participant(d->graph, &prefix);
	if (!p)
		return APUS_ENOENT;
	if (say == SAY_KNOWN)
		return 0;
	if (say == SAY_RELAYED) {
		peer_of(d, p)->told_by &= ~apus_ctl_discovery_trusted_bit(d, source);
		if (peer_of(d, p)->told_by)
			return 0; /* another server knows it still */
	}
	apus_ctl_discovery_forget(d, p);
	apus_ctl_discovery_set_probe(d);
	apus_counter_add(&d->counters.departed, 1);
	return 0;
}

void apus_ctl_discovery_on_evidence(struct apus_ctl_discovery *d, const struct apus_prefix *source,
				    uint32_t bytes, bool proved, struct apus_mono now)
{
	struct apus_ctl_participant *p = apus_ctl_graph_participant(d->graph, source);
	struct peer *peer;

	if (!p || p->local)
		return;
	peer = peer_of(d, p);
	peer->received_bytes += bytes;
	peer->knows_us = true;
	peer->answer_due.ns = 0;
	if (proved && !peer->proved) {
		peer->proved = true;
		apus_ctl_graph_prove(d->graph, p);
		if (apus_ctl_discovery_server_of(d, p))
			apus_ctl_discovery_server_of(d, p)->answered = true;
	}
	if (apus_mono_before(peer->heard, now))
		peer->heard = now;
}

/* Servers count each for itself, and anew after a restart: what comes without the number that its own participant
 * gave it is taken for the latest. */
static apus_seq next_generation(const struct apus_ctl_discovery *d, const struct apus_guid *guid)
{
	const struct apus_ctl_endpoint *e = apus_ctl_graph_endpoint(d->graph, guid);

	return e ? e->generation + 1 : 1;
}

int apus_ctl_discovery_on_relayed_endpoint(struct apus_ctl_discovery *d,
					   const struct apus_wire_endpoint_record *record,
					   const struct apus_prefix *source, apus_seq seq,
					   apus_seq generation, struct apus_mono now)
{
	enum say say = may_tell_of(d, &record->guid, source);
	int result;

	if (say == SAY_NOTHING)
		return refuse_foreign(d, APUS_EPERM);
	apus_ctl_discovery_on_evidence(d, source, 0, false, now);
	if (say == SAY_KNOWN)
		return APUS_CTL_UNCHANGED;
	if (generation == 0)
		generation = next_generation(d, &record->guid);
	result = apus_ctl_graph_add_endpoint(d->graph, record, NULL, generation, NULL);
	if (result == APUS_ENOENT)
		apus_counter_add(&d->counters.orphans, 1);
	if (result == APUS_ELIMIT || result == APUS_ENOMEM)
		note_refused(d, source, record->is_writer, seq);
	return result;
}

int apus_ctl_discovery_on_endpoint(struct apus_ctl_discovery *d,
				   const struct apus_wire_endpoint_record *record,
				   const struct apus_prefix *source, apus_seq seq,
				   struct apus_mono now)
{
	return apus_ctl_discovery_on_relayed_endpoint(d, record, source, seq, seq, now);
}

int apus_ctl_discovery_on_endpoint_gone(struct apus_ctl_discovery *d, const struct apus_guid *gone,
					const struct apus_prefix *source, struct apus_mono now)
{
	enum say say = may_tell_of(d, gone, source);
	struct apus_ctl_endpoint *e;

	if (say == SAY_NOTHING)
		return refuse_foreign(d, APUS_EPERM);
	apus_ctl_discovery_on_evidence(d, source, 0, false, now);
	if (say == SAY_KNOWN)
		return 0;
	e = apus_ctl_graph_endpoint(d->graph, gone);
	/* Built-in endpoints end with their participant, not by a word of SEDP. */
	return e && !e->is_builtin ? apus_ctl_graph_remove_endpoint(d->graph, gone) : APUS_ENOENT;
}

/* ---- our own ------------------------------------------------------------------------------------ */

/* Encodes into the scratch buffer. */
static int encode(struct apus_ctl_discovery *d, const struct apus_wire_endpoint_record *record)
{
	int bytes = apus_wire_endpoint_encode(record, d->scratch.at, sizeof(d->scratch.at));

	if (bytes < 0)
		return bytes;
	d->scratch.bytes = (size_t)bytes;
	return 0;
}

static int write_record(struct apus_ctl_discovery *d,
			const struct apus_wire_endpoint_record *record)
{
	return d->ops.write(d->ops.user, sedp_writer(record->is_writer), &record->guid,
			    d->scratch.at, d->scratch.bytes, false);
}

int apus_ctl_discovery_add_local(struct apus_ctl_discovery *d,
				 const struct apus_wire_endpoint_record *record,
				 const struct apus_ctl_local *local,
				 struct apus_ctl_endpoint **endpoint_out)
{
	struct apus_ctl_endpoint *e;
	int result;

	if (apus_ctl_graph_endpoint(d->graph, &record->guid))
		return APUS_EEXIST;
	result = encode(d, record);
	if (result)
		return result;
	result = apus_ctl_graph_add_endpoint(d->graph, record, local, 1, &e);
	if (result < 0)
		return result;
	result = write_record(d, record);
	if (result) {
		apus_ctl_graph_remove_endpoint(d->graph, &record->guid);
		return result;
	}
	*endpoint_out = e;
	return 0;
}

int apus_ctl_discovery_change_local(struct apus_ctl_discovery *d,
				    const struct apus_wire_endpoint_record *record,
				    apus_seq generation)
{
	struct apus_ctl_endpoint *e = apus_ctl_graph_endpoint(d->graph, &record->guid);
	int result;

	if (!e || !e->is_local || e->is_builtin)
		return APUS_ENOENT;
	if (generation <= e->generation)
		return APUS_EINVAL;
	result = encode(d, record);
	if (result)
		return result;
	result = apus_ctl_graph_add_endpoint(d->graph, record, NULL, generation, NULL);
	if (result < 0)
		return result;
	return write_record(d, record);
}

int apus_ctl_discovery_remove_local(struct apus_ctl_discovery *d, const struct apus_guid *guid)
{
	struct apus_ctl_endpoint *e = apus_ctl_graph_endpoint(d->graph, guid);
	struct apus_guid key = *guid; /* may stand in what is removed */
	bool is_writer;
	int bytes;

	if (!e || !e->is_local || e->is_builtin)
		return APUS_ENOENT;
	is_writer = e->is_writer;
	apus_ctl_graph_remove_endpoint(d->graph, &key);
	bytes = apus_wire_endpoint_key_encode(&key, d->scratch.at, sizeof(d->scratch.at));
	if (bytes < 0)
		return bytes;
	return d->ops.write(d->ops.user, sedp_writer(is_writer), &key, d->scratch.at, (size_t)bytes,
			    true);
}

bool apus_ctl_discovery_proved(const struct apus_ctl_discovery *d,
			       const struct apus_ctl_participant *participant)
{
	return participant->local || d->peer[participant->idx].proved;
}

const struct apus_ctl_discovery_counters *
apus_ctl_discovery_counters(const struct apus_ctl_discovery *d)
{
	return &d->counters;
}

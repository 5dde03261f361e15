/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has which MAC: one table for ARP and neighbour discovery, and the datagrams that wait for an answer.
 *
 *     (absent) --send--> INCOMPLETE --answer--> REACHABLE --30 s, in use--> PROBING --answer--> REACHABLE
 *                            |  three questions                                |  three questions
 *                            v                                                 v
 *                         FAILED --3 s--> (absent)                         INCOMPLETE
 *
 * Nobody is believed unasked. An answer counts while one is awaited, and the first one ends the wait; any other
 * claim of a new MAC makes us ask, at most once a second. A question that is put to us makes a new entry
 * (RFC 826), as long as such entries take at most half of the table, and never changes one.
 */
#include "ip/engine.h"

#include <apus/core.h>

#define ASK_NS       APUS_NS_PER_SEC
#define ASK_COUNT    3
#define REACHABLE_NS (30 * APUS_NS_PER_SEC)
#define UNUSED_NS    (60 * APUS_NS_PER_SEC)
#define FAILED_NS    (3 * APUS_NS_PER_SEC)
/** An entry used more recently than that is not given up for another address. */
#define EVICT_NS APUS_NS_PER_SEC

/* --- The table ------------------------------------------------------------------------------------ */

/* Both halves of the product of both words: every bit of an address counts, wherever it stands. Secret, so that nobody chooses addresses that share a bucket. */
static uint32_t *bucket_of(const struct apus_ip *ip, struct apus_ip_key key)
{
	unsigned __int128 product = (unsigned __int128)(key.word[0] ^ ip->hash_secret[0]) *
				    (key.word[1] ^ ip->hash_secret[1]);

	return &ip->buckets[((uint64_t)product ^ (uint64_t)(product >> 64)) & ip->bucket_mask];
}

uint32_t apus_ip_neighbour_find(const struct apus_ip *ip, uint16_t family, struct apus_ip_key key)
{
	uint32_t idx = *bucket_of(ip, key);

	while (idx != APUS_IP_NONE) {
		const struct apus_ip_neighbour *n = &ip->neighbours[idx];

		if (n->key.word[1] == key.word[1] && n->key.word[0] == key.word[0] &&
		    n->family == family)
			break;
		idx = n->next;
	}
	return idx;
}

static void forget_learned(struct apus_ip *ip, struct apus_ip_neighbour *n)
{
	if (n->learned)
		ip->learned_count--;
	n->learned = false;
}

/* The datagrams that wait for it leave, or are lost. */
static void settle_parked(struct apus_ip *ip, uint32_t idx, bool ready)
{
	for (uint32_t i = 0; i < ip->config.parked_count; i++) {
		struct apus_ip_parked *p = &ip->parked[i];

		if (!p->order || p->ready || p->neighbour_idx != idx)
			continue;
		if (ready) {
			p->ready = true;
			ip->parked_ready_count++;
		} else {
			p->order = 0;
			apus_ip_count(ip, APUS_IP_TX_UNRESOLVED);
		}
	}
}

static void remove_entry(struct apus_ip *ip, uint32_t idx)
{
	struct apus_ip_neighbour *n = &ip->neighbours[idx];
	uint32_t *link = bucket_of(ip, n->key);

	if (n->state == APUS_IP_INCOMPLETE)
		settle_parked(ip, idx, false);
	forget_learned(ip, n);
	while (*link != idx)
		link = &ip->neighbours[*link].next;
	*link = n->next;
	n->state = APUS_IP_FREE;
	n->next = ip->neighbour_free;
	ip->neighbour_free = idx;
}

/* The entry to give up for another: learned and never used first, then the one unused longest. */
static uint32_t find_victim(const struct apus_ip *ip, struct apus_mono now)
{
	uint32_t best = APUS_IP_NONE;

	for (uint32_t i = 0; i < ip->config.neighbour_count; i++) {
		const struct apus_ip_neighbour *n = &ip->neighbours[i];
		const struct apus_ip_neighbour *b = &ip->neighbours[best];

		if (n->state == APUS_IP_STATIC || n->state == APUS_IP_FREE)
			continue;
		if (!n->learned && now.ns - n->used_ns < EVICT_NS)
			continue;
		if (best == APUS_IP_NONE || (n->learned && !b->learned) ||
		    (n->learned == b->learned && n->used_ns < b->used_ns))
			best = i;
	}
	return best;
}

static uint32_t insert(struct apus_ip *ip, uint16_t family, struct apus_ip_key key,
		       struct apus_mono now)
{
	uint32_t idx = ip->neighbour_free;

	if (idx == APUS_IP_NONE)
		return APUS_IP_NONE;
	struct apus_ip_neighbour *n = &ip->neighbours[idx];

	ip->neighbour_free = n->next;
	*n = (struct apus_ip_neighbour){
		.key = key,
		.due_ns = INT64_MAX,
		.asked_ns = INT64_MIN,
		.used_ns = now.ns,
		.family = family,
	};
	uint32_t *bucket = bucket_of(ip, n->key);

	n->next = *bucket;
	*bucket = idx;
	return idx;
}

/* --- Questions and answers ------------------------------------------------------------------------ */

static void set_due(struct apus_ip *ip, struct apus_ip_neighbour *n, int64_t due_ns)
{
	n->due_ns = due_ns;
	apus_ip_schedule(ip, due_ns);
}

static void ask(struct apus_ip *ip, struct apus_ip_neighbour *n, bool everybody,
		struct apus_mono now)
{
	const uint8_t *address = (const uint8_t *)n->key.word;
	const uint8_t *mac = everybody ? NULL : n->mac;

	n->asked_ns = now.ns;
	n->open = true;
	if (n->family == AF_INET)
		apus_ip_arp_ask(ip, address + 12, mac);
	else
		apus_ip_nd_ask(ip, address, mac);
}

static void start_asking(struct apus_ip *ip, struct apus_ip_neighbour *n, struct apus_mono now)
{
	n->state = APUS_IP_INCOMPLETE;
	n->tries = 1;
	ask(ip, n, true, now);
	set_due(ip, n, now.ns + ASK_NS);
}

static void confirm(struct apus_ip *ip, uint32_t idx, const uint8_t mac[6], struct apus_mono now)
{
	struct apus_ip_neighbour *n = &ip->neighbours[idx];
	bool waited_for = n->state == APUS_IP_INCOMPLETE;

	memcpy(n->mac, mac, 6);
	n->state = APUS_IP_REACHABLE;
	n->open = false;
	set_due(ip, n, now.ns + REACHABLE_NS);
	if (waited_for)
		settle_parked(ip, idx, true);
}

/* Somebody claims a new MAC unasked: whoever has the address now will answer. */
static void doubt(struct apus_ip *ip, struct apus_ip_neighbour *n, struct apus_mono now)
{
	apus_ip_count(ip, APUS_IP_NEIGHBOUR_REFUSED);
	if (n->state == APUS_IP_STATIC || n->state == APUS_IP_INCOMPLETE)
		return;
	if (n->asked_ns != INT64_MIN && now.ns - n->asked_ns < ASK_NS)
		return;
	if (apus_ip_control_has_room(ip))
		ask(ip, n, true, now);
}

static bool is_awaited(const struct apus_ip_neighbour *n, struct apus_mono now)
{
	return n->open && now.ns - n->asked_ns < ASK_COUNT * ASK_NS;
}

void apus_ip_neighbour_claim(struct apus_ip *ip, uint16_t family, const uint8_t *ip16,
			     const uint8_t mac[6], bool answer, struct apus_mono now)
{
	uint32_t idx = apus_ip_neighbour_find(ip, family, apus_ip_key_of(ip16));

	if (idx == APUS_IP_NONE) {
		if (answer)
			apus_ip_count(ip, APUS_IP_NEIGHBOUR_UNSOLICITED);
		return;
	}
	struct apus_ip_neighbour *n = &ip->neighbours[idx];
	bool known = n->state != APUS_IP_INCOMPLETE && n->state != APUS_IP_FAILED;
	bool same = known && memcmp(n->mac, mac, 6) == 0;

	if (same && (n->state == APUS_IP_STATIC || !answer))
		return;
	if (n->state != APUS_IP_STATIC && answer && (same || is_awaited(n, now))) {
		if (known && !same)
			apus_ip_count(ip, APUS_IP_NEIGHBOUR_CHANGED);
		confirm(ip, idx, mac, now);
	} else if (known) {
		doubt(ip, n, now);
	} else if (answer) {
		apus_ip_count(ip, APUS_IP_NEIGHBOUR_UNSOLICITED);
	}
}

void apus_ip_neighbour_learn(struct apus_ip *ip, uint16_t family, const uint8_t *ip16,
			     const uint8_t mac[6], struct apus_mono now)
{
	uint32_t idx = apus_ip_neighbour_find(ip, family, apus_ip_key_of(ip16));

	if (idx != APUS_IP_NONE) {
		uint8_t state = ip->neighbours[idx].state;

		if (state == APUS_IP_INCOMPLETE || state == APUS_IP_FAILED)
			confirm(ip, idx, mac, now);
		else
			apus_ip_neighbour_claim(ip, family, ip16, mac, false, now);
		return;
	}
	if (ip->learned_count < ip->config.neighbour_count / 2)
		idx = insert(ip, family, apus_ip_key_of(ip16), now);
	if (idx == APUS_IP_NONE) {
		apus_ip_count(ip, APUS_IP_NEIGHBOUR_FULL);
		return;
	}
	ip->neighbours[idx].learned = true;
	ip->learned_count++;
	confirm(ip, idx, mac, now);
}

/* A new entry for an address we want to send to. */
static uint32_t begin_asking(struct apus_ip *ip, uint16_t family, struct apus_ip_key hop,
			     struct apus_mono now)
{
	if (ip->neighbour_free == APUS_IP_NONE) {
		uint32_t victim = find_victim(ip, now);

		apus_ip_count(ip, APUS_IP_NEIGHBOUR_FULL);
		if (victim == APUS_IP_NONE)
			return APUS_IP_NONE;
		remove_entry(ip, victim);
	}
	uint32_t idx = insert(ip, family, hop, now);

	start_asking(ip, &ip->neighbours[idx], now);
	return idx;
}

uint32_t apus_ip_neighbour_resolve(struct apus_ip *ip, uint16_t family, struct apus_ip_key hop,
				   struct apus_mono now, uint32_t *waiting_out)
{
	uint32_t idx = apus_ip_neighbour_find(ip, family, hop);

	if (idx == APUS_IP_NONE) {
		*waiting_out = begin_asking(ip, family, hop, now);
		return APUS_IP_NONE;
	}
	struct apus_ip_neighbour *n = &ip->neighbours[idx];

	n->used_ns = now.ns;
	if (APUS_UNLIKELY(n->learned))
		forget_learned(ip, n);
	if (APUS_LIKELY(n->state != APUS_IP_INCOMPLETE && n->state != APUS_IP_FAILED))
		return idx;
	*waiting_out = n->state == APUS_IP_INCOMPLETE ? idx : APUS_IP_NONE;
	return APUS_IP_NONE;
}

/* --- Time ----------------------------------------------------------------------------------------- */

static void fail(struct apus_ip *ip, uint32_t idx, struct apus_mono now)
{
	struct apus_ip_neighbour *n = &ip->neighbours[idx];

	apus_ip_count(ip, APUS_IP_NEIGHBOUR_FAILED);
	settle_parked(ip, idx, false);
	n->state = APUS_IP_FAILED;
	n->open = false;
	set_due(ip, n, now.ns + FAILED_NS);
}

static void again(struct apus_ip *ip, struct apus_ip_neighbour *n, struct apus_mono now)
{
	n->tries++;
	ask(ip, n, n->state == APUS_IP_INCOMPLETE, now);
	set_due(ip, n, now.ns + ASK_NS);
}

/* REACHABLE for long: asked again if it is in use, forgotten if it has not been for longer. */
static void age(struct apus_ip *ip, uint32_t idx, struct apus_mono now)
{
	struct apus_ip_neighbour *n = &ip->neighbours[idx];
	int64_t idle_ns = now.ns - n->used_ns;

	if (idle_ns >= UNUSED_NS) {
		remove_entry(ip, idx);
	} else if (idle_ns < REACHABLE_NS && !n->learned) {
		n->state = APUS_IP_PROBING;
		n->tries = 0;
		again(ip, n, now);
	} else {
		set_due(ip, n, now.ns + REACHABLE_NS);
	}
}

static void step(struct apus_ip *ip, uint32_t idx, struct apus_mono now)
{
	struct apus_ip_neighbour *n = &ip->neighbours[idx];

	switch ((enum apus_ip_neighbour_state)n->state) {
	case APUS_IP_INCOMPLETE:
		if (n->tries < ASK_COUNT)
			again(ip, n, now);
		else
			fail(ip, idx, now);
		break;
	case APUS_IP_PROBING:
		if (n->tries < ASK_COUNT)
			again(ip, n, now);
		else
			start_asking(ip, n, now);
		break;
	case APUS_IP_REACHABLE: age(ip, idx, now); break;
	case APUS_IP_FAILED: remove_entry(ip, idx); break;
	case APUS_IP_FREE:
	case APUS_IP_STATIC: break;
	}
}

void apus_ip_neighbour_tick(struct apus_ip *ip, struct apus_mono now)
{
	for (uint32_t i = 0; i < ip->config.neighbour_count; i++) {
		const struct apus_ip_neighbour *n = &ip->neighbours[i];

		if (n->state == APUS_IP_FREE)
			continue;
		if (n->due_ns <= now.ns)
			step(ip, i, now);
		if (n->state != APUS_IP_FREE)
			apus_ip_schedule(ip, n->due_ns);
	}
}

/* --- Parked datagrams ----------------------------------------------------------------------------- */

bool apus_ip_park(struct apus_ip *ip, uint32_t neighbour_idx, const struct apus_ip_endpoint *to,
		  uint16_t from_port, const struct iovec *parts, uint32_t part_count,
		  uint32_t payload_bytes)
{
	struct apus_ip_parked *place = NULL;
	uint32_t same = 0;

	for (uint32_t i = 0; i < ip->config.parked_count; i++) {
		struct apus_ip_parked *p = &ip->parked[i];

		if (!p->order && i != ip->parked_lent)
			place = p;
		same += p->order && p->neighbour_idx == neighbour_idx;
	}
	if (!place || same >= ip->config.parked_per_neighbour_count ||
	    payload_bytes > ip->config.parked_bytes)
		return false;
	apus_ip_gather(parts, part_count, 0, payload_bytes, place->part.iov_base);
	place->part.iov_len = payload_bytes;
	place->order = ++ip->parked_order;
	place->neighbour_idx = neighbour_idx;
	place->payload_bytes = payload_bytes;
	place->from_port = from_port;
	place->to = *to;
	place->ready = false;
	apus_ip_count(ip, APUS_IP_TX_PARKED);
	return true;
}

/* The oldest datagram that can leave. */
static uint32_t first_ready(const struct apus_ip *ip)
{
	uint32_t first = APUS_IP_NONE;

	for (uint32_t i = 0; i < ip->config.parked_count; i++)
		if (ip->parked[i].order && ip->parked[i].ready &&
		    (first == APUS_IP_NONE || ip->parked[i].order < ip->parked[first].order))
			first = i;
	return first;
}

bool apus_ip_next_parked(struct apus_ip *ip, struct apus_mono now, struct apus_ip_send *send_out)
{
	ip->parked_lent = APUS_IP_NONE;
	while (ip->parked_ready_count > 0) {
		uint32_t idx = first_ready(ip);
		struct apus_ip_parked *p = &ip->parked[idx];

		ip->parked_ready_count--;
		p->order = 0;
		ip->parked_lent = idx;
		/* If the neighbour has been lost again meanwhile, it is parked anew or counted. */
		if (apus_ip_send_begin(ip, &p->to, p->from_port, &p->part, 1, now, send_out) == 0)
			return true;
		ip->parked_lent = APUS_IP_NONE;
	}
	return false;
}

/* --- Entries by hand ------------------------------------------------------------------------------ */

int apus_ip_neighbour_set(struct apus_ip *ip, const struct apus_ip_endpoint *address,
			  const uint8_t mac[6])
{
	struct apus_ip_key hop = apus_ip_next_hop(ip, address);

	if ((mac[0] & 1) || apus_ip_all_zero(mac, 6) || apus_ip_key_is_none(hop) ||
	    memcmp(hop.word, address->ip, 16) != 0)
		return APUS_EINVAL;
	uint32_t idx = apus_ip_neighbour_find(ip, address->family, hop);

	if (idx == APUS_IP_NONE)
		idx = insert(ip, address->family, hop, (struct apus_mono){0});
	if (idx == APUS_IP_NONE)
		return APUS_ELIMIT;
	forget_learned(ip, &ip->neighbours[idx]);
	confirm(ip, idx, mac, (struct apus_mono){0});
	ip->neighbours[idx].state = APUS_IP_STATIC;
	ip->neighbours[idx].due_ns = INT64_MAX;
	return 0;
}

int apus_ip_neighbour_get(const struct apus_ip *ip, const struct apus_ip_endpoint *address,
			  uint8_t mac_out[6])
{
	uint32_t idx = apus_ip_neighbour_find(ip, address->family, apus_ip_key_of(address->ip));

	if (idx == APUS_IP_NONE || ip->neighbours[idx].state == APUS_IP_INCOMPLETE ||
	    ip->neighbours[idx].state == APUS_IP_FAILED)
		return APUS_ENOENT;
	memcpy(mac_out, ip->neighbours[idx].mac, 6);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagrams in pieces (RFC 791 §3.2, RFC 8200 §4.5): a fixed number of buffers, each as long as the longest
 * datagram.
 *
 * Invariants
 * - A bit per 8 bytes tells what has come. A piece that meets bits already set is either the same bytes again
 *   (ignored) or an overlap: then the whole datagram is dead, and so is what still comes of it (RFC 5722 §4).
 * - A source has at most its share of the buffers; beyond it, or when none is free, the datagram goes that has
 *   had no piece for longest. So a flood of first pieces takes from itself, and one that forges sources
 *   must be quicker than the pieces of a datagram follow each other.
 * - Only datagrams of UDP are kept; cost is linear in the piece and the number of buffers.
 */
#include "ip/engine.h"

#define DATAGRAM_MAX_BYTES 65535

static bool is_lent(struct apus_ip_reassembly *r)
{
	/* Acquire, pairs with the release in apus_ip_release(): the caller's reads of the buffer are over
	 * before we write to it. */
	return atomic_load_explicit(&r->lent, memory_order_acquire) != 0;
}

void apus_ip_release(struct apus_ip *ip, int32_t buffer_idx)
{
	if (buffer_idx < 0)
		return;
	/* Release, pairs with the acquire in is_lent(). */
	atomic_store_explicit(&ip->reassembly[buffer_idx].lent, 0, memory_order_release);
}

static void end_entry(struct apus_ip *ip, struct apus_ip_reassembly *r)
{
	r->busy = false;
	ip->reassembly_busy_count--;
}

/* --- Which entry ---------------------------------------------------------------------------------- */

static bool is_from(const struct apus_ip_reassembly *r, const struct apus_ip_piece *piece)
{
	return r->busy && r->family == piece->family && memcmp(r->source, piece->source, 16) == 0;
}

static struct apus_ip_reassembly *find(struct apus_ip *ip, const struct apus_ip_piece *piece)
{
	for (uint32_t i = 0; i < ip->config.reassembly_count; i++) {
		struct apus_ip_reassembly *r = &ip->reassembly[i];

		if (r->packet_id == piece->packet_id && is_from(r, piece) &&
		    memcmp(r->destination, piece->destination, 16) == 0)
			return r;
	}
	return NULL;
}

static struct apus_ip_reassembly *older(struct apus_ip_reassembly *a, struct apus_ip_reassembly *b)
{
	return !a || b->touched < a->touched ? b : a;
}

/* A place for one more datagram of that source; NULL: all buffers are lent out. */
static struct apus_ip_reassembly *find_place(struct apus_ip *ip, const struct apus_ip_piece *piece)
{
	struct apus_ip_reassembly *place = NULL, *oldest = NULL, *oldest_same = NULL;
	uint32_t same = 0;

	for (uint32_t i = 0; i < ip->config.reassembly_count; i++) {
		struct apus_ip_reassembly *r = &ip->reassembly[i];

		if (!r->busy) {
			if (!place && !is_lent(r))
				place = r;
			continue;
		}
		oldest = older(oldest, r);
		if (is_from(r, piece)) {
			same++;
			oldest_same = older(oldest_same, r);
		}
	}
	if (same >= ip->config.reassembly_per_source_count)
		place = oldest_same;
	else if (!place)
		place = oldest;
	if (place && place->busy) {
		apus_ip_count(ip, APUS_IP_REASSEMBLY_EVICTED);
		end_entry(ip, place);
	}
	return place;
}

static struct apus_ip_reassembly *begin(struct apus_ip *ip, const struct apus_ip_piece *piece,
					struct apus_mono now)
{
	struct apus_ip_reassembly *r = find_place(ip, piece);

	if (!r)
		return NULL;
	struct apus_ip_buffer *buffer = r->buffer;

	/* Field by field: `lent` is another thread's too, and 0 here. */
	memcpy(r->source, piece->source, 16);
	memcpy(r->destination, piece->destination, 16);
	r->packet_id = piece->packet_id;
	r->family = piece->family;
	r->busy = true;
	r->dead = false;
	r->expires_ns = now.ns + ip->config.reassembly_timeout_ns;
	r->have_bytes = r->total_bytes = r->end_bytes = r->header_bytes = 0;
	memset(buffer->units, 0, sizeof(buffer->units));
	ip->reassembly_busy_count++;
	apus_ip_schedule(ip, r->expires_ns);
	return r;
}

/* --- One piece ------------------------------------------------------------------------------------ */

/* What is wrong with a piece by itself; APUS_IP_COUNT_MAX: nothing. */
static enum apus_ip_count piece_wrong(const struct apus_ip *ip, const struct apus_ip_piece *piece)
{
	/* What IPv4 says of its length includes the header. */
	uint32_t limit = DATAGRAM_MAX_BYTES - (piece->family == AF_INET ? piece->header_bytes : 0);

	if (piece->offset + piece->byte_count > limit)
		return APUS_IP_DROP_FRAGMENT_LONG;
	if (piece->byte_count == 0 || (piece->more && piece->byte_count % 8) ||
	    (piece->more && piece->byte_count < ip->config.fragment_min_bytes))
		return APUS_IP_DROP_FRAGMENT;
	return APUS_IP_COUNT_MAX;
}

/* Bits [from, to) of one word. */
static uint64_t bits_of(uint32_t from, uint32_t to)
{
	uint64_t high = to == 64 ? UINT64_MAX : (UINT64_C(1) << to) - 1;

	return high & ~((UINT64_C(1) << from) - 1);
}

enum met { MET_NOTHING, MET_SOME, MET_ALL };

/* Marks a range of units; tells what was marked already, and then marks nothing further. */
static enum met mark(uint64_t *units, uint32_t first, uint32_t end, bool set)
{
	bool any = false, all = true;

	for (uint32_t word = first / 64; word * 64 < end; word++) {
		uint32_t from = word * 64 < first ? first - word * 64 : 0;
		uint32_t to = end - word * 64 < 64 ? end - word * 64 : 64;
		uint64_t bits = bits_of(from, to);

		any |= (units[word] & bits) != 0;
		all &= (units[word] & bits) == bits;
		if (set)
			units[word] |= bits;
	}
	return all ? MET_ALL : any ? MET_SOME : MET_NOTHING;
}

/* Whether a piece contradicts what is known of the datagram's end. */
static bool contradicts(const struct apus_ip_reassembly *r, const struct apus_ip_piece *piece)
{
	uint32_t end = piece->offset + piece->byte_count;

	if (!piece->more)
		return (r->total_bytes && r->total_bytes != end) || r->end_bytes > end;
	return r->total_bytes && end > r->total_bytes;
}

static void keep_first(struct apus_ip_reassembly *r, const struct apus_ip_piece *piece)
{
	memcpy(r->buffer->header, piece->header, piece->header_bytes);
	r->header_bytes = piece->header_bytes;
	memcpy(r->buffer->source_mac, piece->source_mac, 6);
}

/* Puts a piece into its place. False: the datagram is dead. */
static bool place_piece(struct apus_ip *ip, struct apus_ip_reassembly *r,
			const struct apus_ip_piece *piece)
{
	uint32_t first = piece->offset / 8, end = (piece->offset + piece->byte_count + 7) / 8;
	uint8_t *bytes = r->buffer->bytes + piece->offset;
	enum met met;

	if (contradicts(r, piece))
		return false;
	met = mark(r->buffer->units, first, end, false);
	if (met == MET_ALL)
		return memcmp(bytes, piece->bytes, piece->byte_count) == 0;
	if (met == MET_SOME)
		return false;
	mark(r->buffer->units, first, end, true);
	memcpy(bytes, piece->bytes, piece->byte_count);
	if (piece->offset == 0)
		keep_first(r, piece);
	r->have_bytes += piece->byte_count;
	if (piece->offset + piece->byte_count > r->end_bytes)
		r->end_bytes = piece->offset + piece->byte_count;
	if (!piece->more)
		r->total_bytes = r->end_bytes;
	apus_ip_count(ip, APUS_IP_RX_FRAGMENT);
	return true;
}

enum apus_ip_verdict apus_ip_reassembly_input(struct apus_ip *ip, const struct apus_ip_piece *piece,
					      struct apus_mono now, uint32_t *entry_out)
{
	enum apus_ip_count wrong = piece_wrong(ip, piece);

	if (wrong != APUS_IP_COUNT_MAX)
		return apus_ip_drop(ip, wrong);
	struct apus_ip_reassembly *r = find(ip, piece);

	if (r && r->expires_ns <= now.ns) {
		apus_ip_count(ip, APUS_IP_REASSEMBLY_TIMEOUT);
		end_entry(ip, r);
		r = NULL;
	}
	if (!r)
		r = begin(ip, piece, now);
	if (!r)
		return apus_ip_drop(ip, APUS_IP_DROP_FRAGMENT_FULL);
	r->touched = ++ip->reassembly_touches;
	if (r->dead || !place_piece(ip, r, piece)) {
		r->dead = true;
		return apus_ip_drop(ip, APUS_IP_DROP_FRAGMENT_OVERLAP);
	}
	if (!r->total_bytes || r->have_bytes < r->total_bytes)
		return APUS_IP_CONSUMED;
	/* Relaxed: the caller is told by our return. */
	atomic_store_explicit(&r->lent, 1, memory_order_relaxed);
	end_entry(ip, r);
	apus_ip_count(ip, APUS_IP_RX_REASSEMBLED);
	*entry_out = (uint32_t)(r - ip->reassembly);
	return APUS_IP_UDP;
}

void apus_ip_reassembly_tick(struct apus_ip *ip, struct apus_mono now)
{
	if (!ip->reassembly_busy_count)
		return;
	for (uint32_t i = 0; i < ip->config.reassembly_count; i++) {
		struct apus_ip_reassembly *r = &ip->reassembly[i];

		if (!r->busy)
			continue;
		if (r->expires_ns <= now.ns) {
			apus_ip_count(ip, APUS_IP_REASSEMBLY_TIMEOUT);
			end_entry(ip, r);
		} else {
			apus_ip_schedule(ip, r->expires_ns);
		}
	}
}

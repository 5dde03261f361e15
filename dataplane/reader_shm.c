/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader's end of matches through shared memory; see shm_match.h. Everything a descriptor says is bounded
 * before it is used; a writer that writes nonsense loses its own match's samples and nothing else.
 */
#include "dataplane/reader_internal.h"
#include "dataplane/shm_match.h"

#include <apus/core.h>

#include <string.h>

/* Samples taken from one ring before the next one has its turn. */
#define BURST 64

int apus_dp_shm_in_init(struct apus_dp_shm_in *end, const struct apus_shm_ring_out *out,
			struct apus_dp_shm_page *page, uint32_t capacity, uint32_t inline_bytes,
			const uint8_t *slots, size_t slots_bytes, uint32_t slot_bytes,
			uint32_t slot_count, uint32_t quota)
{
	memset(end, 0, sizeof(*end));
	if (apus_shm_ring_bytes(capacity, inline_bytes) == 0 ||
	    slot_bytes <= APUS_DP_SLOT_PAYLOAD || slot_count == 0 ||
	    slot_count >= APUS_DP_SHM_SLOTS_MAX || slot_bytes % 64 ||
	    slots_bytes / slot_bytes < slot_count)
		return APUS_EINVAL;
	end->page = page;
	end->slots = slots;
	end->slot_bytes = slot_bytes;
	end->slot_count = slot_count;
	end->payload_bytes_max = slot_bytes - APUS_DP_SLOT_PAYLOAD;
	end->lend_max = (quota < slot_count ? quota : slot_count) / 2;
	apus_shm_ring_reader_init(&end->ring, out, &page->ring, capacity, inline_bytes);
	end->inline_bytes = apus_shm_ring_inline_bytes(end->ring.cell_words);
	return 0;
}

/* Marks of the sample in a slot, as its writer has written them. */
static void read_marks(const struct apus_dp_shm_in *end, uint32_t slot, struct apus_dp_marks *out)
{
	memcpy(out, end->slots + (size_t)slot * end->slot_bytes, sizeof(*out));
	if (out->related_seq <= 0) {
		out->related_seq = 0;
		out->related_writer = (struct apus_guid){0};
	}
}

/* The end of a set; it has no slot. */
static void understand_end(const struct apus_shm_desc *d, struct apus_dp_incoming *in_out)
{
	uint64_t began = d->word[2] >> 32;

	*in_out = (struct apus_dp_incoming){.seq = (apus_seq)d->word[0]};
	in_out->marks.coherent_seq = APUS_WIRE_SEQ_UNKNOWN;
	in_out->marks.group_seq = (apus_seq)d->word[3];
	if (began)
		in_out->marks.group_coherent_seq = (apus_seq)(d->word[3] + 1 - began);
}

/* A sample on its way out of the ring. */
struct found {
	struct apus_shm_desc desc;
	struct apus_dp_incoming in;
	uint32_t slot; /* APUS_SHM_NO_SLOT: it has none */
	uint64_t
		payload[APUS_SHM_INLINE_MAX / 8 + APUS_SHM_CELL_ALIGN]; /* if it came in the ring */
};

/* A descriptor as it may be used; false: it contradicts itself or its past. Fetches what lies in the cell. */
static bool understand(const struct apus_dp_reader_state *s, struct found *f)
{
	const struct apus_dp_shm_in *end = s->shm;
	const struct apus_shm_desc *d = &f->desc;
	uint8_t flags = (uint8_t)(d->word[2] >> 24);
	uint32_t payload_bytes = (uint32_t)(d->word[2] >> 32);

	if (APUS_UNLIKELY((apus_seq)d->word[0] <= s->shm_last))
		return false;
	f->slot = APUS_SHM_NO_SLOT;
	if (flags & APUS_DP_SHM_END) {
		understand_end(d, &f->in);
		return true;
	}
	f->in = (struct apus_dp_incoming){
		.seq = (apus_seq)d->word[0],
		.source = {(int64_t)d->word[3]},
		.change = flags & (APUS_DP_DISPOSE | APUS_DP_UNREGISTER),
		.key_only = flags & APUS_DP_SHM_KEY_ONLY,
		.payload_bytes = payload_bytes,
	};
	if (flags & APUS_DP_SHM_INLINE) {
		if (payload_bytes > end->inline_bytes)
			return false;
		f->in.payload = (const uint8_t *)f->payload;
		apus_shm_ring_payload(&end->ring, f->payload, payload_bytes);
		return true;
	}
	f->slot = (uint32_t)d->word[2] & (APUS_DP_SHM_SLOTS_MAX - 1);
	if (f->slot >= end->slot_count || payload_bytes > end->payload_bytes_max)
		return false;
	f->in.payload = end->slots + (size_t)f->slot * end->slot_bytes + APUS_DP_SLOT_PAYLOAD;
	if (flags & APUS_DP_SHM_MARKED)
		read_marks(end, f->slot, &f->in.marks);
	return true;
}

/* Judges what is between the last number and this one. */
static void look_back(struct apus_dp_reader_state *s, const struct apus_shm_desc *d)
{
	s->shm_hole = s->shm_last && (apus_seq)d->word[1] > s->shm_last;
}

/* Numbers that concerned a best-effort reader and never came. Among them may be some that its filter has rejected; of
 * these the ring knows nothing, but how many descriptors went. */
static void note_skipped(struct apus_dp_reader_state *s, const struct apus_shm_desc *d,
			 uint64_t displaced)
{
	uint64_t lost = 0;

	if (!s->reliable && s->shm_hole) {
		lost = d->word[1] - (uint64_t)s->shm_last;
		if (s->reader->inbox.filter && displaced < lost)
			lost = displaced ? displaced : 1;
	}
	s->window.lost += lost;
	s->shm_last = (apus_seq)d->word[0];
	apus_dp_reader_note_lost(s);
}

static void give_back(struct apus_dp_reader_state *s, uint32_t slot)
{
	if (slot != APUS_SHM_NO_SLOT)
		apus_shm_return(s->shm->page->returned, slot);
}

/* Admits the sample where it lies, or a copy of it. False: no room, and it is to be offered again. Otherwise the
 * slot has gone back, unless it stays. */
static bool admit(struct apus_dp_reader_state *s, struct found *f, struct apus_mono now)
{
	struct apus_dp_incoming *in = &f->in;
	struct apus_dp_reader *r = s->reader;
	const uint8_t *payload = in->payload;
	uint32_t own = APUS_SHM_NO_SLOT;
	enum apus_dp_admit_result result;
	bool stays = false;

	if (in->payload_bytes == 0 || in->payload_bytes > r->config.payload_bytes_max) {
		in->payload = NULL;
	} else if (f->slot != APUS_SHM_NO_SLOT && !in->key_only &&
		   apus_dp_lent_fits(s, payload, in->payload_bytes)) {
		r->lending.shm = s->shm;
		r->lending.slot = f->slot;
		r->lending.taken = false;
	} else {
		own = apus_dp_reader_store(r, payload, in->payload_bytes);
		if (own == APUS_SHM_NO_SLOT)
			return false;
		in->payload = apus_dp_reader_slot(r, own);
	}
	apus_counter_add(&r->counters.received, 1);
	result = apus_dp_reader_admit(s, in, now);
	if (r->lending.shm) {
		stays = r->lending.taken;
		r->lending.shm = NULL;
	}
	if (own != APUS_SHM_NO_SLOT)
		apus_shm_pool_release(&r->pool, own);
	if (result == APUS_DP_REFUSED)
		return false;
	if (!stays)
		give_back(s, f->slot);
	return true;
}

static void refuse_ring(struct apus_dp_reader_state *s)
{
	s->shm->ring.broken = true;
}

/* An assertion of liveliness, if it is one. */
static bool is_assertion(struct apus_dp_reader_state *s, const struct apus_shm_desc *d,
			 struct apus_mono now)
{
	if (!(d->word[2] >> 24 & APUS_DP_SHM_ASSERTION))
		return false;
	if (!s->reader->config.sink)
		apus_dp_reader_assert_local(s->reader, s->match_id, now);
	return true;
}

/* Takes one sample of a reliable writer: it leaves the ring when it has been admitted. */
static bool take_reliable(struct apus_dp_reader_state *s, struct apus_mono now)
{
	struct found f;

	if (apus_shm_ring_peek(&s->shm->ring, &f.desc) != APUS_SHM_DONE)
		return false;
	if (is_assertion(s, &f.desc, now)) {
		apus_shm_ring_advance(&s->shm->ring);
		return true;
	}
	if (!understand(s, &f)) {
		refuse_ring(s);
		return false;
	}
	look_back(s, &f.desc);
	if (!admit(s, &f, now)) {
		s->shm_stalled = s->reader->any_refused = true;
		return false;
	}
	note_skipped(s, &f.desc, 0);
	apus_shm_ring_advance(&s->shm->ring);
	return true;
}

/* Takes the next sample of a reliable writer into a slot, if its payload is in its cell and there is nothing else to it;
 * false: anything else, which take_reliable() judges. */
static bool take_small(struct apus_dp_reader_state *s, struct apus_dp_run_item *item_out)
{
	struct apus_dp_shm_in *end = s->shm;
	struct apus_dp_reader *r = s->reader;
	struct apus_shm_desc d;
	uint32_t bytes, slot;

	if (r->pool.free_count == 0 || apus_shm_ring_peek(&end->ring, &d) != APUS_SHM_DONE)
		return false;
	bytes = (uint32_t)(d.word[2] >> 32);
	if ((d.word[2] >> 24 & 0xff) != APUS_DP_SHM_INLINE || bytes == 0 ||
	    bytes > end->inline_bytes || bytes > r->config.payload_bytes_max ||
	    (apus_seq)d.word[0] <= s->shm_last)
		return false;
	slot = apus_shm_pool_acquire(&r->pool);
	apus_shm_ring_payload(&end->ring, apus_dp_reader_slot(r, slot), bytes);
	r->slot_payload_bytes[slot] = bytes;
	*item_out = (struct apus_dp_run_item){
		.seq = (apus_seq)d.word[0], .source_time = {(int64_t)d.word[3]}, .slot_ref = slot};
	s->shm_last = (apus_seq)d.word[0];
	apus_shm_ring_advance(&end->ring);
	return true;
}

/* Small samples in a row, where nothing but room has a say; returns how many were admitted. */
static int take_run(struct apus_dp_reader_state *s, struct apus_mono now)
{
	struct apus_dp_run_item items[BURST];
	uint32_t room, n = 0;

	if (!s->reliable || s->reader->config.sink || !apus_shm_ring_is_ready(&s->shm->ring))
		return 0;
	room = apus_dp_admit_run_room(&s->reader->inbox, s->slot, BURST, now);
	while (n < room && take_small(s, &items[n]))
		n++;
	if (n)
		apus_dp_reader_admit_run(s, items, n, now);
	return (int)n;
}

/* The writer displaces what is being taken: looked at again so many times. It wins every contest if it is as fast as
 * its reader, which must not wait for it. */
#define CLAIM_ATTEMPTS 8

static bool take_best_effort(struct apus_dp_reader_state *s, struct apus_mono now)
{
	struct apus_shm_ring_reader *ring = &s->shm->ring;
	bool is_claimed = false, is_understood = false;
	uint64_t displaced = 0;
	struct found f;

	for (int i = 0; i < CLAIM_ATTEMPTS && !is_claimed; i++) {
		if (apus_shm_ring_look(ring, &f.desc) != APUS_SHM_DONE)
			return false;
		/* Before it is ours: its cell is the writer's again then. What it says may be nonsense till then. */
		is_understood = understand(s, &f);
		is_claimed = apus_shm_ring_claim(ring, &displaced) == APUS_SHM_DONE;
	}
	if (!is_claimed)
		return false;
	if (is_assertion(s, &f.desc, now))
		return true;
	if (!is_understood) {
		refuse_ring(s);
		return false;
	}
	look_back(s, &f.desc);
	note_skipped(s, &f.desc, displaced);
	/* What was refused is lost. */
	if (!admit(s, &f, now))
		give_back(s, f.slot);
	return true;
}

/* There is no room for what is in the ring; its writer may want to know whether we are there. */
static void answer(struct apus_dp_shm_page *page)
{
	/* Relaxed: numbers, and nothing goes with them. */
	uint64_t asked = apus_shm_load(&page->asked, relaxed);

	if (asked != apus_shm_load(&page->answered, relaxed))
		apus_shm_store(&page->answered, asked, relaxed);
}

int apus_dp_shm_drain(struct apus_dp_reader_state *s, struct apus_mono now)
{
	int n;

	if (s->shm_stalled) {
		answer(s->shm->page);
		return 0;
	}
	if (s->shm->ring.broken)
		return 0;
	n = take_run(s, now);
	while (n < BURST && (s->reliable ? take_reliable(s, now) : take_best_effort(s, now)))
		n++;
	if (n) {
		s->reader->worker->shm_busy = true;
		if (s->reliable)
			apus_shm_ring_give(&s->shm->ring);
	}
	if (s->shm->ring.broken)
		apus_counter_add(&s->reader->counters.shm_broken, 1);
	return n;
}

void apus_dp_shm_drain_all(struct apus_dp_reader_state *s, struct apus_mono now)
{
	/* Not as long as somebody goes on writing. */
	for (uint32_t n = 0; n < s->shm->ring.capacity;) {
		int taken = apus_dp_shm_drain(s, now);

		if (taken == 0)
			return;
		n += (uint32_t)taken;
	}
}

/* Looks at each ring once; returns how many samples it took. */
static int fetch_once(struct apus_dp_reader *reader)
{
	int n = 0;

	for (uint32_t i = 0; i < reader->match_count; i++) {
		struct apus_dp_reader_state *s = &reader->states[reader->order[i]];

		if (!s->shm || s->shm_stalled || !apus_shm_ring_is_ready(&s->shm->ring))
			continue;
		/* The time is asked for only if there is something to be dated. */
		n += apus_dp_shm_drain(s, apus_quick_mono(&reader->worker->clock));
	}
	return n;
}

/* Who takes in a loop comes back at once: looking again is cheaper than the way round, and sees a sample sooner. */
#define LOOKS 8

void apus_dp_reader_fetch(struct apus_dp_reader *reader)
{
	for (uint32_t looks = 0; looks < LOOKS; looks += 1 + reader->match_count / 2)
		if (fetch_once(reader) > 0)
			return;
}

void apus_dp_shm_unstall(struct apus_dp_reader_state *state)
{
	if (!state->shm_stalled)
		return;
	state->shm_stalled = false;
	/* It went to sleep without this ring's bell up. */
	if (state->reader->worker->shm_dozing)
		apus_dp_worker_wake(state->reader->worker);
}

int apus_dp_shm_receive(struct apus_dp_worker *worker, struct apus_mono now)
{
	int n = 0;

	for (struct apus_dp_reader_state *s = worker->shm_first; s; s = s->shm_next)
		n += apus_dp_shm_drain(s, now);
	return n;
}

bool apus_dp_shm_doze(struct apus_dp_worker *worker)
{
	bool quiet = true;

	worker->shm_dozing = worker->shm_first != NULL;
	for (struct apus_dp_reader_state *s = worker->shm_first; s && quiet; s = s->shm_next)
		if (!s->shm_stalled && !s->shm->ring.broken)
			quiet = apus_shm_bell_doze(&s->shm->page->bell, &s->shm->ring);
	if (!quiet)
		apus_dp_shm_awake(worker);
	return quiet;
}

void apus_dp_shm_awake(struct apus_dp_worker *worker)
{
	worker->shm_dozing = false;
	for (struct apus_dp_reader_state *s = worker->shm_first; s; s = s->shm_next)
		apus_shm_bell_wake(&s->shm->page->bell);
}

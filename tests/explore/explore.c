/* SPDX-License-Identifier: Apache-2.0 */
/* Exhaustive exploration; see explore.h. */
#include "explore.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define WORDS       48
#define WRITES      32 /* to one word, in one execution */
#define STEPS       512
#define STACK_BYTES (64 << 10)
#define TABLE_BITS  24

/* Whose turn it is outside of the threads: begin() and end() run to their end at once. */
#define ALONE (-1)

struct view {
	uint8_t seen[WORDS];             /* index of the newest write that must have been seen */
	uint16_t clock[EXPLORE_THREADS]; /* how many steps of each thread happened before */
};

struct written {
	uint64_t value;
	struct view view; /* what an acquire read of it takes over */
};

struct word {
	const apus_shm_word *at;
	struct written writes[WRITES]; /* in modification order; the first is the initial 0 */
	uint32_t count;
	bool watched;
	uint16_t read_at[EXPLORE_THREADS]; /* watched: each thread's last read and write */
	uint16_t written_at[EXPLORE_THREADS];
	uint64_t hash;
};

struct op {
	const char *function;
	enum explore_kind kind;
	uint32_t word;
	uint64_t value, expected, result;
	enum explore_order order;
};

struct thread {
	struct view view;
	struct op op;     /* what it wants to do next */
	uint64_t history; /* hash of what it has seen: its local state follows from it */
	bool started, ended;
	ucontext_t context;
	jmp_buf at;
	char *stack;
};

struct choice {
	uint16_t taken, of;
};

static struct word words[WORDS];
static uint32_t word_count;
static struct view consistent; /* what sequentially consistent accesses have seen */
static struct thread threads[EXPLORE_THREADS];
static int running = ALONE;
static struct view alone;
static jmp_buf scheduler;
static void (*starting)(void);

static struct choice trail[STEPS];
static uint32_t trail_count, trail_at;
static uint64_t *visited;
static struct explore_result *result;
static const char *weak_function;
static enum explore_kind weak_kind;
static enum explore_order weak_order;

static void die(const char *what)
{
	fprintf(stderr, "explore: %s\n", what);
	abort();
}

static uint64_t mix(uint64_t h, uint64_t x)
{
	h = (h ^ x) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ (h >> 29);
}

static void join(struct view *v, const struct view *other)
{
	for (uint32_t i = 0; i < word_count; i++)
		if (v->seen[i] < other->seen[i])
			v->seen[i] = other->seen[i];
	for (int i = 0; i < EXPLORE_THREADS; i++)
		if (v->clock[i] < other->clock[i])
			v->clock[i] = other->clock[i];
}

static uint64_t hash_view(const struct view *v)
{
	uint64_t h = 1;

	for (uint32_t i = 0; i < word_count; i++)
		h = mix(h, v->seen[i]);
	for (int i = 0; i < EXPLORE_THREADS; i++)
		h = mix(h, v->clock[i]);
	return h;
}

/* --- choices ------------------------------------------------------------------------------------- */

static uint32_t choose(uint32_t of)
{
	if (of == 1)
		return 0;
	if (trail_at == trail_count) {
		if (trail_count == STEPS)
			die("too many steps");
		trail[trail_count++] = (struct choice){0, (uint16_t)of};
	}
	return trail[trail_at++].taken;
}

/* To the next execution; false: there is none. */
static bool backtrack(void)
{
	while (trail_count && trail[trail_count - 1].taken + 1 == trail[trail_count - 1].of)
		trail_count--;
	if (trail_count == 0)
		return false;
	trail[trail_count - 1].taken++;
	return true;
}

/* --- memory -------------------------------------------------------------------------------------- */

static uint32_t word_of(const apus_shm_word *at)
{
	for (uint32_t i = 0; i < word_count; i++)
		if (words[i].at == at)
			return i;
	if (word_count == WORDS)
		die("too many words");
	memset(&words[word_count].writes[0], 0, sizeof(words[word_count].writes[0]));
	words[word_count].at = at;
	words[word_count].count = 1;
	words[word_count].hash = 1;
	words[word_count].watched = false;
	memset(words[word_count].read_at, 0, sizeof(words[word_count].read_at));
	memset(words[word_count].written_at, 0, sizeof(words[word_count].written_at));
	return word_count++;
}

static bool acquires(enum explore_order o)
{
	return o == EXPLORE_acquire || o == EXPLORE_acq_rel || o == EXPLORE_seq_cst;
}

static bool releases(enum explore_order o)
{
	return o == EXPLORE_release || o == EXPLORE_acq_rel || o == EXPLORE_seq_cst;
}

static void read_write(struct view *view, const struct op *op, uint32_t which)
{
	view->seen[op->word] = (uint8_t)which;
	if (acquires(op->order))
		join(view, &words[op->word].writes[which].view);
	if (op->order == EXPLORE_seq_cst && consistent.seen[op->word] < which)
		consistent.seen[op->word] = (uint8_t)which;
}

/* Appends a write; `from`: the view of the write a read-modify-write read, whose release sequence goes on. */
static void append(struct view *view, const struct op *op, uint64_t value, const struct view *from)
{
	struct word *w = &words[op->word];
	struct written *new = &w->writes[w->count];

	if (w->count == WRITES)
		die("too many writes to a word");
	view->seen[op->word] = (uint8_t)w->count;
	memset(new, 0, sizeof(*new));
	new->value = value;
	if (releases(op->order))
		new->view = *view;
	new->view.seen[op->word] = (uint8_t)w->count;
	if (from)
		join(&new->view, from);
	if (op->order == EXPLORE_seq_cst)
		consistent.seen[op->word] = (uint8_t)w->count;
	w->count++;
	w->hash = mix(mix(w->hash, value), hash_view(&new->view));
}

static uint32_t oldest_visible(const struct view *view, const struct op *op)
{
	uint32_t oldest = view->seen[op->word];

	if (op->order == EXPLORE_seq_cst && consistent.seen[op->word] > oldest)
		oldest = consistent.seen[op->word];
	return oldest;
}

static uint64_t do_load(struct view *view, const struct op *op)
{
	struct word *w = &words[op->word];
	uint32_t oldest = oldest_visible(view, op);
	/* The newest first: most executions look like those of a machine. */
	uint32_t which = w->count - 1 - choose(w->count - oldest);

	read_write(view, op, which);
	return w->writes[which].value;
}

static uint64_t do_modify(struct view *view, const struct op *op)
{
	struct word *w = &words[op->word];
	uint32_t last = w->count - 1;
	uint64_t old = w->writes[last].value;
	struct view from = w->writes[last].view;

	read_write(view, op, last);
	append(view, op, op->kind == EXPLORE_OR ? old | op->value : op->value, &from);
	return old;
}

/* Succeeds on the newest value only; fails, relaxed, on any visible one that differs. */
static uint64_t do_replace(struct view *view, const struct op *op)
{
	struct word *w = &words[op->word];
	uint32_t oldest = oldest_visible(view, op), options = 0, last = w->count - 1, taken;
	uint32_t option[WRITES];
	struct op failed = *op;

	for (uint32_t i = w->count; i-- > oldest;)
		if (i == last || w->writes[i].value != op->expected)
			option[options++] = i;
	taken = option[choose(options)];
	if (taken == last && w->writes[last].value == op->expected) {
		do_modify(view, op);
		return 1;
	}
	failed.order = EXPLORE_relaxed;
	read_write(view, &failed, taken);
	return 0;
}

/* Two accesses to a watched word, one of them a write, must be ordered. */
static void check_race(const struct view *view, const struct op *op)
{
	struct word *w = &words[op->word];
	bool writes = op->kind != EXPLORE_LOAD;

	for (int i = 0; i < EXPLORE_THREADS; i++)
		explore_check(w->written_at[i] <= view->clock[i] &&
				      (!writes || w->read_at[i] <= view->clock[i]),
			      "a word is written while another thread uses it");
	(writes ? w->written_at : w->read_at)[running] = view->clock[running];
}

static uint64_t perform(struct view *view, const struct op *op)
{
	if (running != ALONE) {
		view->clock[running]++;
		if (words[op->word].watched)
			check_race(view, op);
	}
	switch (op->kind) {
	case EXPLORE_LOAD: return do_load(view, op);
	case EXPLORE_STORE: append(view, op, op->value, NULL); return 0;
	case EXPLORE_REPLACE: return do_replace(view, op);
	default: return do_modify(view, op);
	}
}

/* --- threads ------------------------------------------------------------------------------------- */

static void weaken(struct op *op)
{
	if (!weak_function || op->kind != weak_kind || strcmp(op->function, weak_function) != 0)
		return;
	op->order = weak_order;
}

uint64_t explore_op(const char *function, enum explore_kind kind, const apus_shm_word *word,
		    uint64_t value, uint64_t expected, enum explore_order order)
{
	struct op op = {.function = function,
			.kind = kind,
			.word = word_of(word),
			.value = value,
			.expected = expected,
			.order = order};
	struct thread *t;

	weaken(&op);
	if (running == ALONE)
		return perform(&alone, &op);
	t = &threads[running];
	t->op = op;
	if (_setjmp(t->at) == 0)
		_longjmp(scheduler, 1);
	return t->op.result;
}

static void entry(void)
{
	starting();
	threads[running].ended = true;
	_longjmp(scheduler, 1);
}

/* Runs the thread up to its next operation, or its end. */
static void resume(int i, const struct explore_program *p)
{
	struct thread *t = &threads[i];

	running = i;
	if (_setjmp(scheduler) == 0) {
		if (t->started)
			_longjmp(t->at, 1);
		t->started = true;
		starting = p->thread[i];
		getcontext(&t->context);
		t->context.uc_stack.ss_sp = t->stack;
		t->context.uc_stack.ss_size = STACK_BYTES;
		t->context.uc_link = NULL;
		makecontext(&t->context, entry, 0);
		setcontext(&t->context);
	}
	running = ALONE;
}

/* --- exploring ----------------------------------------------------------------------------------- */

static uint64_t state_hash(void)
{
	uint64_t h = hash_view(&consistent);

	for (uint32_t i = 0; i < word_count; i++) {
		h = mix(h, mix(words[i].hash, (uintptr_t)words[i].at));
		for (int k = 0; words[i].watched && k < EXPLORE_THREADS; k++)
			h = mix(h, (uint32_t)words[i].read_at[k] << 16 | words[i].written_at[k]);
	}
	for (int i = 0; i < EXPLORE_THREADS; i++)
		h = mix(mix(h, threads[i].history), hash_view(&threads[i].view));
	return h ? h : 1;
}

/* True if the state is new; it is not any more then. */
static bool visit(uint64_t h)
{
	uint64_t mask = (UINT64_C(1) << TABLE_BITS) - 1;

	for (uint64_t b = h & mask;; b = (b + 1) & mask) {
		if (visited[b] == h)
			return false;
		if (visited[b] == 0) {
			visited[b] = h;
			if (++result->states > mask - mask / 8)
				die("too many states");
			return true;
		}
	}
}

static void reset(const struct explore_program *p)
{
	word_count = 0;
	memset(&consistent, 0, sizeof(consistent));
	memset(&alone, 0, sizeof(alone));
	trail_at = 0;
	p->begin();
	for (int i = 0; i < EXPLORE_THREADS; i++) {
		threads[i].view = alone;
		threads[i].history = 1;
		threads[i].started = false;
		threads[i].ended = !p->thread[i];
	}
}

static uint32_t runnable(int out[EXPLORE_THREADS])
{
	uint32_t n = 0;

	for (int i = 0; i < EXPLORE_THREADS; i++)
		if (!threads[i].ended)
			out[n++] = i;
	return n;
}

static void step(int i)
{
	struct thread *t = &threads[i];

	running = i;
	t->op.result = perform(&t->view, &t->op);
	running = ALONE;
	t->history = mix(mix(t->history, t->op.result), (uint64_t)t->op.kind << 32 | t->op.word);
}

/* One execution, following the trail and then its first new branch. */
static void execute(const struct explore_program *p)
{
	int ready[EXPLORE_THREADS];
	uint32_t n;

	reset(p);
	for (int i = 0; i < EXPLORE_THREADS; i++)
		if (!threads[i].ended)
			resume(i, p);
	while ((n = runnable(ready)) > 0 && !result->failed) {
		bool may_die = p->mortal && !threads[p->mortal].ended;
		uint32_t next;

		/* Where the trail ends, a known state has been followed already. */
		if (trail_at == trail_count && !visit(state_hash()))
			return;
		next = choose(n + may_die);
		if (next == n) {
			threads[p->mortal].ended = true;
			threads[p->mortal].history = 0;
			continue;
		}
		step(ready[next]);
		resume(ready[next], p);
	}
	if (result->failed)
		return;
	for (int i = 0; i < EXPLORE_THREADS; i++)
		join(&alone, &threads[i].view);
	for (uint32_t i = 0; i < word_count; i++)
		alone.seen[i] = (uint8_t)(words[i].count - 1);
	p->end();
}

struct explore_result explore(const struct explore_program *program)
{
	struct explore_result r = {0};

	result = &r;
	visited = calloc((size_t)1 << TABLE_BITS, sizeof(*visited));
	if (!visited)
		die("no memory");
	for (int i = 0; i < EXPLORE_THREADS; i++)
		threads[i].stack = malloc(STACK_BYTES);
	trail_count = 0;
	do {
		execute(program);
		r.runs++;
	} while (!r.failed && backtrack());
	for (int i = 0; i < EXPLORE_THREADS; i++)
		free(threads[i].stack);
	free(visited);
	result = NULL;
	return r;
}

void explore_watch(const apus_shm_word *word)
{
	words[word_of(word)].watched = true;
}

void explore_weaken(const char *function, enum explore_kind kind, enum explore_order order)
{
	weak_function = function;
	weak_kind = kind;
	weak_order = order;
}

void explore_check(bool holds, const char *what)
{
	if (holds || result->failed)
		return;
	result->failed = true;
	snprintf(result->why, sizeof(result->why), "%s", what);
}

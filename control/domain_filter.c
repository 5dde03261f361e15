/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filter classes of the application (apus/filter_class.h): the registry, and compiled forms as predicates.
 *
 * An instance has one compiled form at a time, which one worker evaluates. It compiles before the form is published
 * and finalises when no worker can see it any more, so its callbacks follow one another without a lock; publication
 * and reclaim order them. An instance that has nothing to do waits for the next form.
 *
 * A class counts its compiled forms; while there are any it stays.
 */
#include "control/domain.h"

#include <apus/filter_class.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/filter.h"
#include "dataplane/predicate_program.h"

/* How long an unregistration waits for grace periods, in steps. */
#define WAIT_STEPS   100
#define WAIT_STEP_US 1000

struct apus_ctl_filter_class {
	struct apus_ctl_filter_class *next;
	struct apus_filter_class c; /* `name` is ours */
	/* Compiled forms. Under the participant's lock, but raised without it while a reader compiles. */
	_Atomic uint32_t uses;
	_Atomic(void *) spare; /* an instance without a form; taken and left by exchange */
	struct apus_filter_limits limits;
};

/* What a custom predicate stands for. */
struct compiled {
	struct apus_ctl_filter_class *class;
	void *instance;
	const struct apus_type *type;
	void *form;
};

static enum apus_dp_verdict evaluate(void *context, const uint8_t *payload, size_t payload_bytes)
{
	struct compiled *k = context;
	int result = k->class->c.evaluate(k->instance, k->form, k->type, payload, payload_bytes);

	return result < 0 ? APUS_DP_ERROR : result > 0 ? APUS_DP_PASS : APUS_DP_REJECT;
}

static void *take_spare(struct apus_ctl_filter_class *class)
{
	/* acquire, pairs with leave_instance(): what its callbacks did before is seen. */
	return atomic_exchange_explicit(&class->spare, NULL, memory_order_acquire);
}

static void *take_instance(struct apus_ctl_filter_class *class)
{
	void *instance = take_spare(class);

	return instance ? instance : class->c.create(&class->limits, class->c.user);
}

static void leave_instance(struct apus_ctl_filter_class *class, void *instance)
{
	/* acq_rel: release pairs with take_instance(); acquire, as one that waits there is destroyed here. */
	void *other = atomic_exchange_explicit(&class->spare, instance, memory_order_acq_rel);

	if (other)
		class->c.destroy(other);
}

static void release(void *context)
{
	struct compiled *k = context;

	k->class->c.finalize(k->instance, k->form);
	leave_instance(k->class, k->instance);
	/* release, pairs with the acquire in unregister: finalize() has returned. */
	atomic_fetch_sub_explicit(&k->class->uses, 1, memory_order_release);
	free(k);
}

static struct apus_ctl_filter_class *find(const struct apus_participant *p, const char *name)
{
	struct apus_ctl_filter_class *class = p->filter_classes;

	while (class && strcmp(class->c.name, name) != 0)
		class = class->next;
	return class;
}

static bool is_builtin(const struct apus_participant *p, const char *name)
{
	return !p->config.disable_builtin_sql && strcmp(name, APUS_CTL_FILTER_CLASS) == 0;
}

static int compile_form(struct compiled *k, const struct apus_filter_source *source)
{
	int result;

	k->instance = take_instance(k->class);
	if (!k->instance)
		return APUS_ENOMEM;
	result = k->class->c.compile(k->instance, source, &k->form);
	if (result != 0)
		leave_instance(k->class, k->instance);
	return result > 0 ? APUS_EFILTER : result;
}

int apus_ctl_domain_compile_custom(void *user, const char *class_name,
				   const struct apus_filter_source *source, uint32_t context,
				   struct apus_dp_predicate **predicate_out)
{
	struct apus_participant *p = user;
	struct apus_ctl_filter_class *class = find(p, class_name);
	struct compiled *k;
	int result;

	(void)context; /* whoever asks has a form, and so an instance, for each */
	if (!class)
		return APUS_ENOENT;
	k = calloc(1, sizeof(*k));
	if (!k)
		return APUS_ENOMEM;
	k->class = class;
	k->type = source->type;
	result = compile_form(k, source);
	if (result < 0) {
		free(k);
		return result;
	}
	/* relaxed: under the participant's lock, which unregister takes as well. */
	atomic_fetch_add_explicit(&class->uses, 1, memory_order_relaxed);
	*predicate_out = apus_dp_predicate_custom(evaluate, release, k);
	if (*predicate_out)
		return 0;
	release(k);
	return APUS_ENOMEM;
}

bool apus_ctl_domain_knows_class(const struct apus_participant *p, const char *name)
{
	return is_builtin(p, name) || find(p, name) != NULL;
}

/* ---- registry ---------------------------------------------------------------------------------- */

static void destroy_class(struct apus_ctl_filter_class *class)
{
	void *spare = take_spare(class);

	if (spare)
		class->c.destroy(spare);
	free((char *)(uintptr_t) class->c.name);
	free(class);
}

static struct apus_ctl_filter_class *make_class(const struct apus_participant *p,
						const struct apus_filter_class *c)
{
	struct apus_ctl_filter_class *class = calloc(1, sizeof(*class));

	if (!class)
		return NULL;
	class->c = *c;
	class->c.name = strdup(c->name);
	class->limits = (struct apus_filter_limits){
		.expression_max_count = 1,
		.expression_max_length = p->config.filter_expression_bytes,
		.parameter_max_count_per_expression = p->config.filter_parameters,
		.parameter_max_length = p->config.filter_parameter_bytes,
	};
	/* A class that cannot make one is found out now. */
	if (class->c.name)
		leave_instance(class, take_instance(class));
	/* Relaxed: nobody else has seen the class. */
	if (atomic_load_explicit(&class->spare, memory_order_relaxed))
		return class;
	destroy_class(class);
	return NULL;
}

static int check_class(const struct apus_participant *p, const struct apus_filter_class *c)
{
	uint32_t count = !p->config.disable_builtin_sql;

	if (!p->config.filtering)
		return APUS_ENOTSUP;
	if (strlen(c->name) > p->config.filter_class_bytes)
		return APUS_ELIMIT;
	if (apus_ctl_domain_knows_class(p, c->name))
		return APUS_EEXIST;
	for (const struct apus_ctl_filter_class *k = p->filter_classes; k; k = k->next)
		count++;
	return count >= p->config.filter_classes ? APUS_ELIMIT : 0;
}

int apus_filter_class_register(struct apus_participant *participant,
			       const struct apus_filter_class *filter_class)
{
	const struct apus_filter_class *c = filter_class;
	struct apus_participant *p = participant;
	struct apus_ctl_filter_class *class;
	int result;

	if (!p || !c || !c->name || !c->name[0] || !c->create || !c->destroy || !c->compile ||
	    !c->evaluate || !c->finalize)
		return APUS_EINVAL;
	if (!apus_dp_alive(p->fork_count))
		return APUS_ECLOSED;
	pthread_mutex_lock(&p->lock);
	result = check_class(p, c);
	if (result == 0) {
		class = make_class(p, c);
		result = class ? 0 : APUS_ENOMEM;
	}
	if (result == 0) {
		class->next = p->filter_classes;
		p->filter_classes = class;
	}
	pthread_mutex_unlock(&p->lock);
	return result;
}

/* Under lock. Takes the class out of the list if nothing uses it. */
static int try_unregister(struct apus_participant *p, const char *name,
			  struct apus_ctl_filter_class **class_out)
{
	struct apus_ctl_filter_class **link = &p->filter_classes;

	while (*link && strcmp((*link)->c.name, name) != 0)
		link = &(*link)->next;
	if (!*link)
		return APUS_ENOENT;
	/* What ended is let go of once no worker can see it. */
	apus_ctl_publisher_reclaim(p->publisher);
	/* acquire, pairs with release(): the last finalize() has returned. */
	if (atomic_load_explicit(&(*link)->uses, memory_order_acquire))
		return APUS_EAGAIN;
	*class_out = *link;
	*link = (*link)->next;
	return 0;
}

int apus_filter_class_unregister(struct apus_participant *participant, const char *name)
{
	struct apus_ctl_filter_class *class = NULL;
	int result = APUS_EAGAIN;

	if (!participant || !name)
		return APUS_EINVAL;
	if (!apus_dp_alive(participant->fork_count))
		return APUS_ECLOSED;
	for (int i = 0; result == APUS_EAGAIN && i < WAIT_STEPS; i++) {
		if (i > 0)
			usleep(WAIT_STEP_US);
		pthread_mutex_lock(&participant->lock);
		result = try_unregister(participant, name, &class);
		pthread_mutex_unlock(&participant->lock);
	}
	if (result == 0)
		destroy_class(class);
	return result;
}

void apus_ctl_domain_drop_classes(struct apus_participant *p)
{
	struct apus_ctl_filter_class *next;

	for (struct apus_ctl_filter_class *class = p->filter_classes; class; class = next) {
		next = class->next;
		destroy_class(class);
	}
	p->filter_classes = NULL;
}

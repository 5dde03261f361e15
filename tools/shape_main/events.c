/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of shape_main's statuses. They come from one listener of the participant, called from the
 * program's own loop, so that they never mix with a sample's line; the library reports incompatible QoS
 * before matches, as the test reads them.
 */
#include <inttypes.h>
#include <stdio.h>

#include "tools/shape_main/shape.h"

static const char *topic_of_writer(struct apus_writer *writer)
{
	return apus_writer_topic(writer);
}

static const char *topic_of_reader(struct apus_reader *reader)
{
	return apus_reader_topic(reader);
}

static void offered_incompatible(struct apus_writer *writer,
				 const struct apus_incompatible_status *s, void *user)
{
	(void)user;
	printf("on_offered_incompatible_qos() topic: '%s' type: 'ShapeType' : %d (%s)\n",
	       topic_of_writer(writer), s->last_policy, apus_policy_name(s->last_policy));
}

static void requested_incompatible(struct apus_reader *reader,
				   const struct apus_incompatible_status *s, void *user)
{
	(void)user;
	printf("on_requested_incompatible_qos() topic: '%s' type: 'ShapeType' : %d (%s)\n",
	       topic_of_reader(reader), s->last_policy, apus_policy_name(s->last_policy));
}

static void publication_matched(struct apus_writer *writer, const struct apus_matched_status *s,
				void *user)
{
	(void)user;
	printf("on_publication_matched() topic: '%s' type: 'ShapeType' : matched readers %u (change = %d)\n",
	       topic_of_writer(writer), s->current, s->current_change);
}

static void subscription_matched(struct apus_reader *reader, const struct apus_matched_status *s,
				 void *user)
{
	(void)user;
	printf("on_subscription_matched() topic: '%s' type: 'ShapeType' : matched writers %u (change = %d)\n",
	       topic_of_reader(reader), s->current, s->current_change);
}

static void offered_deadline(struct apus_writer *writer, const struct apus_deadline_status *s,
			     void *user)
{
	(void)user;
	printf("on_offered_deadline_missed() topic: '%s' type: 'ShapeType' : (total = %" PRIu64
	       ", change = %" PRIu64 ")\n",
	       topic_of_writer(writer), s->total, s->change);
}

static void requested_deadline(struct apus_reader *reader, const struct apus_deadline_status *s,
			       void *user)
{
	(void)user;
	printf("on_requested_deadline_missed() topic: '%s' type: 'ShapeType' : (total = %" PRIu64
	       ", change = %" PRIu64 ")\n",
	       topic_of_reader(reader), s->total, s->change);
}

static void liveliness_lost(struct apus_writer *writer, const struct apus_liveliness_lost_status *s,
			    void *user)
{
	(void)user;
	printf("on_liveliness_lost() topic: '%s' type: 'ShapeType' : (total = %" PRIu64
	       ", change = %" PRIu64 ")\n",
	       topic_of_writer(writer), s->total, s->change);
}

static void liveliness_changed(struct apus_reader *reader, const struct apus_liveliness_status *s,
			       void *user)
{
	(void)user;
	printf("on_liveliness_changed() topic: '%s' type: 'ShapeType' : (alive = %u, not_alive = %u)\n",
	       topic_of_reader(reader), s->alive, s->not_alive);
}

int shape_listen(struct shape_run *run)
{
	const struct apus_listener listener = {
		.on = APUS_LISTEN_DISPATCH,
		.on_offered_incompatible_qos = offered_incompatible,
		.on_requested_incompatible_qos = requested_incompatible,
		.on_publication_matched = publication_matched,
		.on_subscription_matched = subscription_matched,
		.on_offered_deadline_missed = offered_deadline,
		.on_requested_deadline_missed = requested_deadline,
		.on_liveliness_lost = liveliness_lost,
		.on_liveliness_changed = liveliness_changed,
	};

	return apus_participant_set_listener(run->session.participant, &listener);
}

void shape_print_events(struct shape_run *run)
{
	apus_participant_dispatch(run->session.participant);
}

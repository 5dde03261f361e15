/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells where the traffic of a pair goes and why; for people.
 *
 * Nothing is chosen here: the addresses and their reasons are those the graph keeps for every endpoint and
 * that snapshots hand to the data plane.
 */
#include "control/domain.h"
#include "control/domain_shm.h"

#include <string.h>

/* The public reasons are the selection's, with one more. */
_Static_assert(APUS_ROUTE_NONE == (int)APUS_CTL_REASON_NONE &&
		       APUS_ROUTE_UNPROVED == (int)APUS_CTL_REASON_UNPROVED &&
		       APUS_ROUTE_ENDPOINT == (int)APUS_CTL_REASON_ENDPOINT &&
		       APUS_ROUTE_PARTICIPANT == (int)APUS_CTL_REASON_PARTICIPANT,
	       "fill() casts");

const char *apus_route_reason_text(int reason)
{
	switch (reason) {
	case APUS_ROUTE_NONE: return "no address that can be used";
	case APUS_ROUTE_UNPROVED: return "it has not answered there yet";
	case APUS_ROUTE_ENDPOINT: return "the endpoint's own";
	case APUS_ROUTE_PARTICIPANT: return "its participant's default";
	case APUS_ROUTE_PROCESS: return "handed over inside the participant";
	case APUS_ROUTE_SHM: return "through shared memory";
	default: return "unknown";
	}
}

static void put_addr(const struct apus_dp_addr *addr, char text_out[APUS_LOCATOR_TEXT_BYTES])
{
	struct apus_locator locator;

	text_out[0] = '\0';
	if (!addr->family)
		return;
	locator = apus_dp_addr_to_locator(addr);
	apus_ctl_locator_text(&locator, text_out, APUS_LOCATOR_TEXT_BYTES);
}

static void fill(const struct apus_participant *p, const struct apus_ctl_endpoint *w,
		 const struct apus_ctl_endpoint *r, struct apus_route *out)
{
	memset(out, 0, sizeof(*out));
	out->matched = apus_ctl_graph_match(p->graph, w, r) != NULL;
	if (w->is_local && r->is_local) {
		out->data_reason = out->acks_reason = APUS_ROUTE_PROCESS;
		return;
	}
	if (out->matched && apus_ctl_domain_shm_has(p, apus_ctl_graph_match(p->graph, w, r)->id)) {
		out->data_reason = out->acks_reason = APUS_ROUTE_SHM;
		return;
	}
	out->data_reason = (int)r->reason;
	put_addr(&r->unicast, out->data);
	put_addr(&r->multicast, out->multicast);
	out->acks_reason = (int)w->reason;
	put_addr(&w->unicast, out->acks);
}

int apus_pair_route(struct apus_participant *participant, const struct apus_guid *writer,
		    const struct apus_guid *reader, struct apus_route *route_out)
{
	const struct apus_ctl_endpoint *w, *r;
	int rc = 0;

	if (!writer || !reader || !route_out)
		return APUS_EINVAL;
	if (!apus_dp_alive(participant->fork_count))
		return APUS_ECLOSED;
	pthread_mutex_lock(&participant->lock);
	w = apus_ctl_graph_endpoint(participant->graph, writer);
	r = apus_ctl_graph_endpoint(participant->graph, reader);
	if (!w || !r)
		rc = APUS_ENOENT;
	else if (w->is_builtin || r->is_builtin || !w->is_writer || r->is_writer)
		rc = APUS_EINVAL;
	else
		fill(participant, w, r, route_out);
	pthread_mutex_unlock(&participant->lock);
	return rc;
}

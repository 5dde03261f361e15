/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Participants of this host and user: finding them, talking to them, hearing of their end. See domain_shm.c for
 * what is said.
 *
 * A connection that ends says that its maker has closed; that it is dead its pidfd says, a moment later, which came with
 * its first message. Whoever is destroyed in good order says BYE first, so a death is the end of a process that has not;
 * all that a dead process has said is read before it is judged.
 */
#include "control/shm_internal.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define MAGIC       0x53555041u /* "APUS" */
#define VERSION     4
#define CONNECTIONS 256 /* that others made; more are hung up on */
#define MESSAGES    64  /* read of one connection in a round */
#define LAST_ROUNDS 32  /* of a dead process's connections: more than a socket's buffer holds */

static void name_of(const struct apus_prefix *prefix, char out[2 * sizeof(*prefix) + 1])
{
	for (size_t i = 0; i < sizeof(prefix->bytes); i++)
		snprintf(out + 2 * i, 3, "%02x", prefix->bytes[i]);
}

/* Descriptors that others have, too, stay in an epoll set when they are closed here. */
static void drop_fd(struct apus_ctl_shm *s, int fd)
{
	if (fd < 0)
		return;
	if (s->epoll >= 0)
		(void)epoll_ctl(s->epoll, EPOLL_CTL_DEL, fd, NULL);
	close(fd);
}

static int watch(struct apus_ctl_shm *s, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	return fd < 0 || epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : APUS_EIO;
}

/* --- peers --------------------------------------------------------------------------------------- */

void apus_ctl_shm_sign(const struct apus_participant *p, struct apus_ctl_shm_message *m)
{
	m->magic = MAGIC;
	m->version = VERSION;
	if (p)
		m->sender = p->prefix;
}

bool apus_ctl_shm_is_ours(const struct apus_ctl_shm_message *m)
{
	return m->magic == MAGIC && m->version == VERSION;
}

int apus_ctl_shm_say(struct apus_participant *p, struct apus_ctl_shm_peer *peer,
		     struct apus_ctl_shm_message *m, const int *fds, uint32_t fd_count)
{
	apus_ctl_shm_sign(p, m);
	return peer->out < 0 ? APUS_ECLOSED
			     : apus_shm_send(peer->out, m, sizeof(*m), fds, fd_count);
}

void apus_ctl_shm_say_of(struct apus_participant *p, const struct apus_ctl_shm_route *r,
			 enum apus_ctl_shm_kind kind)
{
	struct apus_ctl_shm_message m = {.kind = (uint16_t)kind,
					 .writer = r->writer,
					 .reader = r->reader,
					 .offer = r->offer};

	if (kind == APUS_CTL_SHM_REFUSE || kind == APUS_CTL_SHM_DETACH)
		m.no_reader = !apus_ctl_graph_endpoint(p->graph, &r->reader);
	(void)apus_ctl_shm_say(p, r->peer, &m, NULL, 0);
}

bool apus_ctl_shm_is_there(const struct apus_ctl_shm_peer *peer)
{
	struct pollfd out = {.fd = peer->out};

	/* Errors are told unasked. */
	return peer->out >= 0 && !peer->left && poll(&out, 1, 0) == 0;
}

/* A participant of this host, connected to if need be. NULL: it is not on this host, or does not listen. */
struct apus_ctl_shm_peer *apus_ctl_shm_peer_of(struct apus_participant *p,
					       const struct apus_prefix *prefix)
{
	struct apus_ctl_shm *s = p->shm;
	struct apus_ctl_shm_message hello = {.kind = APUS_CTL_SHM_HELLO};
	char name[sizeof(s->name)];
	struct apus_ctl_shm_peer *peer;
	int fd;

	for (peer = s->peers; peer; peer = peer->next)
		if (apus_prefix_equal(&peer->prefix, prefix))
			return peer->out < 0 ? NULL : peer;
	name_of(prefix, name);
	fd = apus_shm_connect(s->directory, name);
	if (fd < 0)
		return NULL;
	peer = calloc(1, sizeof(*peer));
	if (!peer) {
		close(fd);
		return NULL;
	}
	*peer = (struct apus_ctl_shm_peer){
		.next = s->peers, .prefix = *prefix, .out = fd, .pidfd = -1};
	s->peers = peer;
	if (apus_ctl_shm_say(p, peer, &hello, &s->self, s->self >= 0) != 0) {
		close(fd);
		peer->out = -1;
		return NULL;
	}
	apus_counter_add(&p->shm_counters.links, 1);
	/* It may die before it has said who it is. */
	peer->pidfd = apus_shm_listener_process(fd);
	if (peer->pidfd < 0 || watch(s, peer->pidfd) != 0) {
		drop_fd(s, peer->pidfd);
		peer->pidfd = -1;
	}
	return peer;
}

/* --- messages ------------------------------------------------------------------------------------ */

static struct apus_ctl_shm_peer *greet(struct apus_participant *p,
				       const struct apus_ctl_shm_message *m,
				       struct apus_shm_message *raw)
{
	struct apus_ctl_shm_peer *peer = apus_ctl_shm_peer_of(p, &m->sender);

	if (!peer || peer->told || raw->fd_count != 1 || watch(p->shm, raw->fds[0]) != 0)
		return peer;
	drop_fd(p->shm, peer->pidfd);
	peer->told = true;
	peer->pidfd = raw->fds[0];
	raw->fds[0] = -1;
	return peer;
}

/* Writers speak of their own writers, readers of their own readers. */
static bool speaks_for_itself(const struct apus_ctl_shm_message *m)
{
	bool of_writer = m->kind == APUS_CTL_SHM_OFFER || m->kind == APUS_CTL_SHM_NONE ||
			 m->kind == APUS_CTL_SHM_WITHDRAW;
	struct apus_prefix prefix = apus_guid_prefix(of_writer ? &m->writer : &m->reader);

	return apus_prefix_equal(&prefix, &m->sender);
}

/* The other side has closed, or is dead: nobody looks at our memory from there any more. Which of the two, the process
 * tells, a moment later. */
static void lose(struct apus_participant *p, struct apus_ctl_shm_peer *peer)
{
	drop_fd(p->shm, peer->out);
	peer->out = -1;
	for (struct apus_ctl_shm_route *r = p->shm->routes; r; r = r->next)
		if (r->peer == peer)
			r->let_go = true;
}

/* False: this connection is of no use. */
static bool handle(struct apus_participant *p, struct apus_ctl_shm_connection *c,
		   struct apus_shm_message *raw)
{
	struct apus_ctl_shm_message m;

	if (raw->length != sizeof(m))
		return false;
	memcpy(&m, raw->bytes, sizeof(m));
	if (!apus_ctl_shm_is_ours(&m))
		return false;
	if (!c->peer && !c->answered && m.kind == APUS_CTL_SHM_ASK) {
		c->answered = true;
		apus_ctl_shm_tell(p, c->fd);
		return true; /* who asks hangs up */
	}
	if (!c->peer) {
		if (m.kind != APUS_CTL_SHM_HELLO || apus_prefix_equal(&m.sender, &p->prefix))
			return false;
		c->peer = greet(p, &m, raw);
		return c->peer != NULL;
	}
	if (!apus_prefix_equal(&m.sender, &c->peer->prefix) || c->peer->left)
		return false;
	if (m.kind == APUS_CTL_SHM_BYE) {
		c->peer->left = true;
		lose(p, c->peer);
		return true; /* it hangs up */
	}
	if (!speaks_for_itself(&m))
		return false;
	switch (m.kind) {
	case APUS_CTL_SHM_OFFER: apus_ctl_shm_on_offer(p, c->peer, &m, raw); return true;
	case APUS_CTL_SHM_NONE:
	case APUS_CTL_SHM_WITHDRAW: apus_ctl_shm_on_none(p, c->peer, &m); return true;
	case APUS_CTL_SHM_ACCEPT: apus_ctl_shm_on_accept(p, c->peer, &m, raw); return true;
	case APUS_CTL_SHM_REFUSE: apus_ctl_shm_on_refuse(p, c->peer, &m); return true;
	case APUS_CTL_SHM_DETACH: apus_ctl_shm_on_detach(p, c->peer, &m); return true;
	default: return false;
	}
}

/* Reads what has come; false if the connection has ended, or is not worth keeping. */
static bool serve(struct apus_participant *p, struct apus_ctl_shm_connection *c)
{
	struct apus_shm_message raw;
	bool good = true;
	int rc = 0;

	for (int i = 0; i < MESSAGES && good; i++) {
		rc = apus_shm_receive(c->fd, &raw);
		if (rc == APUS_EAGAIN)
			return true;
		if (rc != 0)
			break;
		good = handle(p, c, &raw);
		apus_shm_message_close(&raw);
	}
	if (!good || rc == APUS_EENCODING)
		apus_counter_add(&p->shm_counters.malformed, 1);
	return good && rc == 0;
}

static void admit_connections(struct apus_ctl_shm *s)
{
	int fd;

	while ((fd = apus_shm_accept(s->listener)) >= 0) {
		struct apus_ctl_shm_connection *c =
			s->connection_count < CONNECTIONS ? calloc(1, sizeof(*c)) : NULL;

		if (!c || watch(s, fd) != 0) {
			free(c);
			close(fd);
			continue;
		}
		c->fd = fd;
		c->next = s->connections;
		s->connections = c;
		s->connection_count++;
	}
}

/* Participants of a dead process are gone; no need to wait for their leases. */
static void bury(struct apus_participant *p, struct apus_ctl_shm_peer *peer)
{
	struct apus_guid gone =
		apus_guid_make(&peer->prefix, (struct apus_eid){APUS_CTL_EID_PARTICIPANT});
	char name[sizeof(p->shm->name)];

	name_of(&peer->prefix, name);
	(void)apus_shm_clear(p->shm->directory, name);
	drop_fd(p->shm, peer->pidfd);
	peer->pidfd = -1;
	lose(p, peer);
	if (!peer->left)
		apus_counter_add(&p->shm_counters.deaths, 1);
	apus_dp_worker_take_turn(p->control);
	apus_ctl_discovery_on_participant_gone(p->discovery, &gone, &peer->prefix);
	apus_dp_worker_end_turn(p->control);
}

/* Reads the connections of one peer, or of all; ends those that have ended. Returns how many of them are left. */
static uint32_t serve_connections(struct apus_participant *p, const struct apus_ctl_shm_peer *only)
{
	struct apus_ctl_shm *s = p->shm;
	uint32_t left = 0;

	for (struct apus_ctl_shm_connection **link = &s->connections, *c; (c = *link);) {
		if ((only && c->peer != only) || serve(p, c)) {
			left += !only || c->peer == only;
			link = &c->next;
			continue;
		}
		*link = c->next;
		s->connection_count--;
		drop_fd(s, c->fd);
		if (c->peer)
			lose(p, c->peer);
		free(c);
	}
	return left;
}

void apus_ctl_shm_serve_all(struct apus_participant *p)
{
	struct apus_ctl_shm *s = p->shm;
	struct epoll_event event;

	if (epoll_wait(s->epoll, &event, 1, 0) <= 0)
		return;
	admit_connections(s);
	(void)serve_connections(p, NULL);
	for (struct apus_ctl_shm_peer *peer = s->peers; peer; peer = peer->next) {
		if (peer->pidfd < 0 || !apus_shm_is_dead(peer->pidfd))
			continue;
		/* It may have said something since we read, or more than we read; somebody may hold its socket
		 * open, and go on. */
		for (int i = 0; i < LAST_ROUNDS && serve_connections(p, peer) > 0; i++)
			;
		bury(p, peer);
	}
}

/* Peers that are gone and of whom nothing is left. */
void apus_ctl_shm_forget_peers(struct apus_participant *p)
{
	struct apus_ctl_shm *s = p->shm;

	for (struct apus_ctl_shm_peer **link = &s->peers, *peer; (peer = *link);) {
		/* One that has closed may yet turn out to be dead, as long as discovery knows it. */
		bool used = peer->out >= 0 || (peer->pidfd >= 0 &&
					       apus_ctl_graph_participant(p->graph, &peer->prefix));

		for (const struct apus_ctl_shm_route *r = s->routes; r && !used; r = r->next)
			used = r->peer == peer;
		for (const struct apus_ctl_shm_connection *c = s->connections; c && !used;
		     c = c->next)
			used = c->peer == peer;
		if (used) {
			link = &peer->next;
			continue;
		}
		*link = peer->next;
		drop_fd(s, peer->pidfd);
		free(peer);
	}
}

/* --- life ---------------------------------------------------------------------------------------- */

static void ignore(void *user, const char *name, bool alive)
{
	(void)user;
	(void)name;
	(void)alive;
}

int apus_ctl_domain_shm_open(struct apus_participant *p, char *why, size_t why_bytes)
{
	struct apus_ctl_shm *s;
	int rc;

	if (!p->config.shm)
		return 0;
	s = p->shm = calloc(1, sizeof(*s));
	if (!s)
		return APUS_ENOMEM;
	s->listener = s->epoll = s->self = -1;
	s->network = calloc(p->config.matches, sizeof(*s->network));
	if (!s->network)
		return APUS_ENOMEM;
	rc = apus_shm_directory(p->config.shm_directory[0] ? p->config.shm_directory : NULL,
				s->directory, sizeof(s->directory));
	if (rc != 0) {
		snprintf(why, why_bytes, "shm.directory: %s: %s", s->directory, apus_strerror(rc));
		return rc;
	}
	/* Names of those that were killed. */
	(void)apus_shm_sweep(s->directory, true, ignore, NULL);
	name_of(&p->prefix, s->name);
	s->listener = apus_shm_listen(s->directory, s->name);
	if (s->listener < 0) {
		snprintf(why, why_bytes, "shm: cannot listen in %s: %s", s->directory,
			 apus_strerror(s->listener));
		return s->listener;
	}
	s->self = apus_shm_self();
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	rc = s->epoll < 0 ? APUS_EIO : watch(s, s->listener);
	return rc ? rc : watch(s, p->netwatch_fd);
}

int apus_ctl_domain_shm_fd(const struct apus_participant *p)
{
	return p->shm ? p->shm->epoll : -1;
}

void apus_ctl_domain_shm_close(struct apus_participant *p)
{
	struct apus_ctl_shm *s = p->shm;
	struct apus_ctl_shm_connection *c;
	struct apus_ctl_shm_peer *peer;

	if (!s)
		return;
	while (s->routes)
		apus_ctl_shm_free_route(s, s->routes);
	while ((c = s->connections)) {
		s->connections = c->next;
		drop_fd(s, c->fd);
		free(c);
	}
	while ((peer = s->peers)) {
		struct apus_ctl_shm_message bye = {.kind = APUS_CTL_SHM_BYE};

		s->peers = peer->next;
		(void)apus_ctl_shm_say(p, peer, &bye, NULL, 0);
		drop_fd(s, peer->out);
		drop_fd(s, peer->pidfd);
		free(peer);
	}
	if (s->listener >= 0)
		apus_shm_unlisten(s->directory, s->name, s->listener);
	if (s->self >= 0)
		close(s->self);
	if (s->epoll >= 0)
		close(s->epoll);
	free(s->network);
	free(s);
	p->shm = NULL;
}

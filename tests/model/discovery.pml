/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How participants converge on matches: control/discovery.c and the proof of dataplane/writer.c as a model.
 *
 * For every ordered pair (a, b), what `a` holds about `b`:
 *
 *   heard      an announcement of b's present life is known          (struct peer; a participant of the graph)
 *   proved     b has answered a challenge sent to its address        (peer.proved)
 *   endpoints  b's endpoint records are known                        (endpoints of the graph)
 *   matched    endpoints of both are matched                         (matches of the graph)
 *
 * Lives: a participant may restart under the same prefix; announcements carry the life, as the sequence
 * number and source timestamp of SPDP do. Four kinds of message, each repeated until its purpose is served:
 * announcement, challenge (a HEARTBEAT), answer (its ACKNACK), records (SEDP data).
 *
 * The network holds a set of messages, so they overtake each other; the adversary loses, duplicates or delays
 * a message on delivery, TROUBLE times in all. That a message offered again and again is delivered in the end
 * is the strong fairness the paper asks for: the adversary's means are finite, the offers are not.
 *
 * COARSE makes saying and hearing one step. What a participant says only adds to sets that others take from in
 * steps of their own, so whatever happens between the two may as well happen before or after both; the states
 * of three participants become few enough to visit all of them. With two, both forms are checked.
 *
 * STAR leaves out what is not needed with a restart among three. All state belongs to a pair of participants; pairs
 * have nothing in common but the lives of their members and TROUBLE. Participants are alike, so it may be 0 that
 * restarts; and what goes on between 1 and 2, who do not, is what goes on without restarts. So the pairs with 0 are
 * run, both through the same restart.
 *
 * BROKEN builds a variant with a mistake that must be found; see run.py.
 */
#ifndef N
#define N 2
#endif
#ifndef TROUBLE
#define TROUBLE 3
#endif
#ifndef RESTARTS
#define RESTARTS 1
#endif
#ifndef BROKEN
#define BROKEN 0
#endif
#define ANNOUNCE_ONCE     1
#define MATCH_UNPROVED    2
#define BELIEVE_STRANGERS 3
#define MISS_RESTARTS     4
#define BELIEVE_THE_DEAD  5

#define AT(a, b) ((a) * N + (b))
/* A message's place in the set: by the lives of its sender and of whom it is for. */
#define OF(mine, yours) (1 << (2 * (mine) + (yours)))

byte life[N];
byte known_life[N * N];
bool heard[N * N], proved[N * N], endpoints[N * N], matched[N * N];
bool announced[N * N]; /* ANNOUNCE_ONCE */
byte newest[N * N];      /* ghost: the latest life of b that a has heard */
bool has_known[N * N * 4]; /* ghost: a, in this life, has at some time heard b in that life */
byte announcement[N * N], challenge[N * N], answer[N * N], records[N * N]; /* on the way from a to b */
byte trouble = TROUBLE, restarts = RESTARTS;

#define CURRENT(a, b) (matched[AT(a, b)] && known_life[AT(a, b)] == life[b])
#if N == 2
#define ALL_MATCHED (CURRENT(0, 1) && CURRENT(1, 0))
#else
#define ALL_MATCHED                                                                              \
	(CURRENT(0, 1) && CURRENT(1, 0) && CURRENT(0, 2) && CURRENT(2, 0) && CURRENT(1, 2) &&    \
	 CURRENT(2, 1))
#endif

inline forget(a, b)
{
	heard[AT(a, b)] = false;
	proved[AT(a, b)] = false;
	endpoints[AT(a, b)] = false;
	matched[AT(a, b)] = false;
	known_life[AT(a, b)] = 0;
	announced[AT(a, b)] = false;
}

/* Takes one message off a set, unless the adversary has it otherwise. */
inline take(pool, mark, got)
{
	got = false;
	if
	:: pool & mark ->
		if
		:: pool = pool & ~mark; got = true
		:: trouble > 0 -> trouble--; pool = pool & ~mark /* lost */
		:: trouble > 0 -> trouble--; got = true       /* duplicated */
		:: trouble > 0 -> trouble--                   /* delayed, and overtaken */
		fi
	:: else
	fi
}

inline on_announcement(a, b, his)
{
	if
	:: heard[AT(a, b)] && his > known_life[AT(a, b)] && BROKEN != MISS_RESTARTS ->
		forget(a, b); /* NEW_LIFE */
		heard[AT(a, b)] = true;
		known_life[AT(a, b)] = his
	:: heard[AT(a, b)] && his < known_life[AT(a, b)] ->
		if
		:: BROKEN == BELIEVE_THE_DEAD ->
			forget(a, b);
			heard[AT(a, b)] = true;
			known_life[AT(a, b)] = his
		:: else /* FORMER_LIFE */
		fi
	:: !heard[AT(a, b)] ->
		heard[AT(a, b)] = true;
		known_life[AT(a, b)] = his
	:: else /* SAME_LIFE */
	fi;
#ifdef LIVE
	skip
#else
	has_known[AT(a, b) * 4 + 2 * life[a] + known_life[AT(a, b)]] = true
#endif
}

/* What `a` does about `b`, over and over. */
proctype side(byte a; byte b)
{
	bool got;
	byte his;

	do
	:: atomic { /* say: each kind again and again, until it has served its purpose */
		if
		:: BROKEN == ANNOUNCE_ONCE && announced[AT(a, b)]
		:: else ->
			announcement[AT(a, b)] = announcement[AT(a, b)] | OF(life[a], 0);
			announced[AT(a, b)] = true
		fi;
		if
		:: heard[AT(a, b)] && !proved[AT(a, b)] ->
			challenge[AT(a, b)] = challenge[AT(a, b)] | OF(life[a], known_life[AT(a, b)])
		:: proved[AT(a, b)] ->
			records[AT(a, b)] = records[AT(a, b)] | OF(life[a], known_life[AT(a, b)])
		:: else
		fi;
#ifndef COARSE
		}
	   atomic {
#endif
		/* hear; the kinds in any order, for each may be delayed */
		take(announcement[AT(b, a)], OF(0, 0), got);
		if
		:: got -> on_announcement(a, b, 0)
		:: else
		fi;
		take(announcement[AT(b, a)], OF(1, 0), got);
		if
		:: got -> on_announcement(a, b, 1)
		:: else
		fi;
		his = known_life[AT(a, b)];
		take(challenge[AT(b, a)], OF(his, life[a]), got);
		if
		:: got && heard[AT(a, b)] ->
			answer[AT(a, b)] = answer[AT(a, b)] | OF(life[a], his)
		:: else
		fi;
		take(answer[AT(b, a)], OF(his, life[a]), got);
		if
		:: got && heard[AT(a, b)] -> proved[AT(a, b)] = true
		:: else
		fi;
		if
		:: BROKEN == BELIEVE_STRANGERS -> take(records[AT(b, a)], OF(0, 0), got)
		:: else -> take(records[AT(b, a)], OF(his, life[a]), got)
		fi;
		if
		:: got && (heard[AT(a, b)] || BROKEN == BELIEVE_STRANGERS) ->
			endpoints[AT(a, b)] = true
		:: else
		fi;
		if
		:: endpoints[AT(a, b)] && heard[AT(a, b)] &&
		   (proved[AT(a, b)] || BROKEN == MATCH_UNPROVED) ->
			matched[AT(a, b)] = true
		:: else
		fi;
		got = false;
		his = 0;
#ifndef LIVE
		assert(!endpoints[AT(a, b)] || heard[AT(a, b)]);
		assert(!matched[AT(a, b)] || (heard[AT(a, b)] && endpoints[AT(a, b)]));
		/* Matched: he has known us, in this life of ours and that life of his. */
		assert(!matched[AT(a, b)] ||
		       has_known[AT(b, a) * 4 + 2 * known_life[AT(a, b)] + life[a]]);
		/* And not on his word alone. */
		assert(!matched[AT(a, b)] || proved[AT(a, b)]);
		/* The dead do not come back. */
		assert(known_life[AT(a, b)] >= newest[AT(a, b)] || !heard[AT(a, b)]);
		if
		:: heard[AT(a, b)] -> newest[AT(a, b)] = known_life[AT(a, b)]
		:: else
		fi
#else
		skip
#endif
		}
	od
}

/* A participant that dies and starts again under its old prefix, knowing nobody. Maybe. */
proctype fate()
{
	byte who = 0, i;

	do
	:: restarts > 0 -> atomic {
		restarts--;
#ifndef STAR
		do :: who < N - 1 -> who++ :: break od;
#endif
		if
		:: life[who] == 0 ->
			life[who] = 1;
			i = 0;
			do
			:: i < N ->
				if
				:: i != who ->
					forget(who, i);
					newest[AT(who, i)] = 0
				:: else
				fi;
				i++
			:: else -> break
			od
		:: else
		fi;
		who = 0 }
	:: break
	od
}

init
{
	byte a = 0, b;

	atomic {
		do
		:: a < N ->
			b = 0;
			do
			:: b < N ->
				if
#ifdef STAR
			:: a != b && (a == 0 || b == 0) -> run side(a, b)
#else
			:: a != b -> run side(a, b)
#endif
			:: else
			fi;
				b++
			:: else -> break
			od;
			a++
		:: else -> break
		od;
		run fate()
	}
}

#ifdef LIVE
ltl converges { <>[] (ALL_MATCHED) }
#endif

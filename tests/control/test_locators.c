/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the same addresses are chosen on every machine, and none that cannot work.
 * Method: selections with a known order, in every permutation of their input; the rows of the table
 * "which endpoint's address"; what must be passed over, one by one.
 */
#include "control/locators.h"
#include "tests/control/graph_fixture.h"

#include <stdio.h>

static struct apus_dp_addr addr(uint8_t a, uint8_t b, uint8_t c, uint8_t d, uint16_t port)
{
	return apus_dp_addr_v4((uint8_t[]){a, b, c, d}, port);
}

static struct apus_ctl_locator_policy policy_of(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
	struct apus_ctl_locator_policy p = {.own_count = 1};

	p.own[0] = apus_dp_addr_v4((uint8_t[]){a, b, c, d}, 0);
	return p;
}

static bool unicast(const struct apus_ctl_locator_policy *policy, bool same_host,
		    const struct apus_wire_locators *own,
		    const struct apus_wire_locators *participant, struct apus_dp_addr *addr_out)
{
	const struct apus_ctl_locator_side side = {.same_host = same_host};

	return apus_ctl_locators_unicast(policy, &side, own, participant, addr_out, NULL);
}

static struct apus_wire_locators list(uint32_t count, const struct apus_locator *at)
{
	struct apus_wire_locators l = {.count = count};

	memcpy(l.at, at, count * sizeof(*at));
	return l;
}

static void the_order_does_not_depend_on_the_input(void **state)
{
	struct apus_ctl_locator_policy policy = policy_of(10, 1, 0, 5);
	/* As expected: near before far, then by address, by port; fall-backs last. */
	const struct apus_ctl_candidate expected[] = {
		{addr(10, 1, 0, 5, 7411), false},  {addr(10, 1, 0, 7, 7411), false},
		{addr(10, 1, 0, 7, 7413), false},  {addr(10, 2, 0, 1, 7411), false},
		{addr(192, 0, 2, 1, 7411), false}, {addr(10, 1, 0, 9, 7411), true},
	};
	uint64_t rng = 99;

	(void)state;
	for (int round = 0; round < 1000; round++) {
		struct apus_ctl_candidate c[8];

		memcpy(c, expected, sizeof(expected));
		c[6] = expected[0];
		c[6].fallback = true; /* known already: the learned one stays */
		c[7] = expected[3];
		for (uint32_t i = 7; i > 0; i--) {
			uint32_t j = fixture_below(&rng, i + 1);
			struct apus_ctl_candidate swap = c[i];

			c[i] = c[j];
			c[j] = swap;
		}
		assert_int_equal(apus_ctl_locators_select(&policy, false, c, 8), 6);
		for (int i = 0; i < 6; i++) {
			assert_true(apus_dp_addr_equal(&c[i].addr, &expected[i].addr));
			assert_int_equal(c[i].fallback, expected[i].fallback);
		}
	}
}

static uint32_t passes(struct apus_ctl_locator_policy policy, bool same_host, struct apus_dp_addr a)
{
	struct apus_ctl_candidate c = {.addr = a};

	return apus_ctl_locators_select(&policy, same_host, &c, 1);
}

static void gates_hold(void **state)
{
	struct apus_ctl_locator_policy policy = policy_of(10, 1, 0, 5);

	(void)state;
	assert_int_equal(passes(policy, false, addr(10, 1, 0, 6, 1)), 1);
	assert_int_equal(passes(policy, false, addr(127, 0, 0, 1, 1)), 0);
	assert_int_equal(passes(policy, true, addr(127, 0, 0, 1, 1)), 1);
	assert_int_equal(passes(policy, false, addr(10, 1, 0, 6, 0)), 0);
	assert_int_equal(passes(policy, false, addr(0, 0, 0, 0, 1)), 0);
	assert_int_equal(passes(policy, false, addr(239, 255, 0, 1, 1)), 0);
	assert_int_equal(passes(policy, false, (struct apus_dp_addr){0}), 0);
	policy.multicast = true;
	assert_int_equal(passes(policy, false, addr(239, 255, 0, 1, 1)), 1);
	policy.loopback_only = true;
	assert_int_equal(passes(policy, false, addr(10, 1, 0, 6, 1)), 0);
	assert_int_equal(passes(policy, true, addr(10, 1, 0, 6, 1)), 1);
}

static void too_many_candidates_are_cut(void **state)
{
	struct apus_ctl_locator_policy policy = policy_of(10, 1, 0, 5);
	struct apus_ctl_candidate c[APUS_CTL_CANDIDATES_MAX + 8];

	(void)state;
	for (uint16_t i = 0; i < APUS_CTL_CANDIDATES_MAX + 8; i++)
		c[i] = (struct apus_ctl_candidate){addr(10, 1, 0, 6, (uint16_t)(i + 1)), false};
	assert_int_equal(apus_ctl_locators_select(&policy, false, c, APUS_CTL_CANDIDATES_MAX + 8),
			 APUS_CTL_CANDIDATES_MAX);
	for (uint16_t i = 0; i < APUS_CTL_CANDIDATES_MAX; i++)
		c[i] = (struct apus_ctl_candidate){addr(10, 1, 0, 6, 7), i % 2};
	assert_int_equal(apus_ctl_locators_select(&policy, false, c, APUS_CTL_CANDIDATES_MAX), 1);
	assert_false(c[0].fallback);
}

static void own_address_before_the_participants(void **state)
{
	struct apus_ctl_locator_policy policy = policy_of(192, 0, 2, 9);
	struct apus_locator own = fixture_locator(192, 0, 2, 1, 5000);
	struct apus_locator theirs = fixture_locator(192, 0, 2, 9, 7411);
	struct apus_wire_locators none = {0}, mine = list(1, &own), participant = list(1, &theirs);
	struct apus_dp_addr chosen;

	(void)state;
	assert_true(unicast(&policy, false, &mine, &participant, &chosen));
	assert_int_equal(chosen.port, 5000);
	assert_true(unicast(&policy, false, &none, &participant, &chosen));
	assert_int_equal(chosen.port, 7411);
	assert_false(unicast(&policy, false, &none, &none, &chosen));
	assert_int_equal(chosen.family, 0);
}

/* Interop: Fast DDS 2.9.1 and Cyclone DDS 0.10.2 list shared-memory locators (kind 16), port 0 too. */
static void other_kinds_are_passed_over(void **state)
{
	struct apus_ctl_locator_policy policy = policy_of(192, 0, 2, 9);
	struct apus_locator at[] = {
		fixture_locator(192, 0, 2, 1, 1), fixture_locator(192, 0, 2, 2, 2),
		fixture_locator(239, 255, 0, 1, 3), fixture_locator(192, 0, 2, 3, 4)};
	struct apus_wire_locators l;
	struct apus_dp_addr chosen;

	(void)state;
	at[0].kind = 16;
	at[1].port = 70000;
	l = list(4, at);
	assert_true(unicast(&policy, false, &l, NULL, &chosen));
	assert_int_equal(chosen.port, 4);
	l = list(2, at);
	assert_false(unicast(&policy, false, &l, NULL, &chosen));
}

static void multicast_needs_the_policy(void **state)
{
	struct apus_ctl_locator_policy policy = policy_of(192, 0, 2, 9);
	struct apus_locator at[] = {fixture_locator(192, 0, 2, 1, 1),
				    fixture_locator(239, 255, 0, 1, 7401)};
	struct apus_wire_locators l = list(2, at);
	struct apus_dp_addr chosen;

	(void)state;
	assert_false(apus_ctl_locators_multicast(&policy, &l, NULL, &chosen));
	policy.multicast = true;
	assert_true(apus_ctl_locators_multicast(&policy, &l, NULL, &chosen));
	assert_int_equal(chosen.port, 7401);
}

static void the_same_host_is_recognised(void **state)
{
	struct apus_ctl_locator_policy policy = policy_of(192, 0, 2, 9);
	struct apus_dp_addr from[] = {addr(127, 0, 0, 1, 9), addr(127, 8, 0, 1, 9),
				      addr(192, 0, 2, 9, 1), addr(192, 0, 2, 8, 1)};

	(void)state;
	assert_true(apus_ctl_locators_same_host(&policy, &from[0]));
	assert_true(apus_ctl_locators_same_host(&policy, &from[1]));
	assert_true(apus_ctl_locators_same_host(&policy, &from[2]));
	assert_false(apus_ctl_locators_same_host(&policy, &from[3]));
	assert_false(apus_ctl_locators_same_host(&policy, &(struct apus_dp_addr){0}));
}

static void peers_expand_to_the_well_known_ports(void **state)
{
	const struct apus_dp_addr host = apus_dp_addr_v4((const uint8_t[]){10, 0, 0, 1}, 0);
	struct apus_dp_addr out[200];

	(void)state;
	assert_int_equal(apus_ctl_peer_expand(&host, 1234, 7, 9, out, 200), 1);
	assert_int_equal(out[0].port, 1234);
	assert_int_equal(apus_ctl_peer_expand(&host, 0, 7, 2, out, 200), 3);
	assert_int_equal(out[0].port, 9160);
	assert_int_equal(out[2].port, 9164);
	assert_int_equal(apus_ctl_peer_expand(&host, 0, 0, 119, out, 4), 4);
	assert_int_equal(out[3].port, 7416);
	/* Domain 232: 65410 + 2 · 62 is the last port below 65536. */
	assert_int_equal(apus_ctl_peer_expand(&host, 0, 232, 119, out, 200), 63);
	assert_int_equal(out[62].port, 65534);
	assert_int_equal(apus_ctl_peer_expand(&host, 1234, 0, 0, out, 0), 0);
}

static void locators_print_for_people(void **state)
{
	struct apus_locator l = fixture_locator(10, 0, 0, 255, 7411);
	char text[64];

	(void)state;
	apus_ctl_locator_text(&l, text, sizeof(text));
	assert_string_equal(text, "udp4://10.0.0.255:7411");
	l.kind = APUS_LOCATOR_UDPV6;
	apus_ctl_locator_text(&l, text, sizeof(text));
	assert_string_equal(text, "udp6://[0:0:0:0:0:0:a00:ff]:7411");
	l.kind = 16;
	apus_ctl_locator_text(&l, text, sizeof(text));
	assert_string_equal(text, "kind 16");
}

/* ---- lists and switches ------------------------------------------------------------------------- */

static void add_prefix(struct apus_ctl_address_list *list, const char *text)
{
	assert_int_equal(apus_ctl_address_prefix_parse(text, &list->at[list->count++]), 0);
}

static void deny_wins_and_an_empty_allow_list_allows(void **state)
{
	struct apus_ctl_locator_policy policy = policy_of(10, 1, 0, 5);

	(void)state;
	assert_int_equal(passes(policy, false, addr(10, 9, 0, 1, 1)), 1);
	add_prefix(&policy.deny, "10.9.0.0/16");
	assert_int_equal(passes(policy, false, addr(10, 9, 0, 1, 1)), 0);
	assert_int_equal(passes(policy, false, addr(10, 8, 0, 1, 1)), 1);
	add_prefix(&policy.allow, "10.8.0.0/15");
	assert_int_equal(passes(policy, false, addr(10, 8, 255, 1, 1)), 1);
	assert_int_equal(passes(policy, false, addr(10, 9, 0, 1, 1)), 0); /* allowed and denied */
	assert_int_equal(passes(policy, false, addr(10, 10, 0, 1, 1)), 0);
	assert_int_equal(passes(policy, false, addr(192, 0, 2, 1, 1)), 0);
	add_prefix(&policy.allow, "192.0.2.1");
	assert_int_equal(passes(policy, false, addr(192, 0, 2, 1, 1)), 1);
	assert_int_equal(passes(policy, false, addr(192, 0, 2, 2, 1)), 0);
	add_prefix(&policy.deny, "0.0.0.0/0");
	assert_int_equal(passes(policy, false, addr(192, 0, 2, 1, 1)), 0);
}

static void switches_hold(void **state)
{
	struct apus_ctl_locator_policy policy = policy_of(10, 1, 0, 5);
	struct apus_dp_addr from = addr(10, 1, 0, 77, 4000), chosen;
	struct apus_ctl_locator_side side = {.from = &from};
	struct apus_locator wild = fixture_locator(0, 0, 0, 0, 7411);
	struct apus_wire_locators none = {0}, announced = list(1, &wild);
	enum apus_ctl_locator_reason reason;

	(void)state;
	assert_int_equal(passes(policy, true, addr(127, 0, 0, 1, 1)), 1);
	policy.no_loopback = true;
	assert_int_equal(passes(policy, true, addr(127, 0, 0, 1, 1)), 0);
	assert_false(
		apus_ctl_locators_unicast(&policy, &side, &none, &announced, &chosen, &reason));
	assert_int_equal(reason, APUS_CTL_REASON_NONE);
	policy.wildcard = true;
	assert_true(apus_ctl_locators_unicast(&policy, &side, &none, &announced, &chosen, &reason));
	assert_int_equal(reason, APUS_CTL_REASON_PARTICIPANT);
	assert_int_equal(chosen.ip[15], 77);
	assert_int_equal(chosen.port, 7411);
	/* What it stands for passes the lists as if it had been said. */
	add_prefix(&policy.deny, "10.1.0.77");
	assert_false(
		apus_ctl_locators_unicast(&policy, &side, &none, &announced, &chosen, &reason));
}

static void only_the_proved_host_is_sent_to(void **state)
{
	struct apus_ctl_locator_policy policy = policy_of(10, 1, 0, 5);
	struct apus_dp_addr proof = addr(10, 2, 0, 2, 7410), chosen;
	struct apus_ctl_locator_side side = {.proof = &proof};
	struct apus_locator two[] = {fixture_locator(10, 1, 0, 9, 7411),
				     fixture_locator(10, 2, 0, 2, 7411)};
	struct apus_wire_locators near = list(1, two), both = list(2, two);
	enum apus_ctl_locator_reason reason;

	(void)state;
	assert_true(apus_ctl_locators_unicast(&policy, &side, &near, &both, &chosen, &reason));
	assert_int_equal(reason, APUS_CTL_REASON_PARTICIPANT);
	assert_int_equal(chosen.ip[13], 2);
	assert_false(apus_ctl_locators_unicast(&policy, &side, &near, &near, &chosen, &reason));
	assert_int_equal(reason, APUS_CTL_REASON_UNPROVED);
	proof.family = 0; /* none yet */
	assert_false(apus_ctl_locators_unicast(&policy, &side, &both, &both, &chosen, &reason));
	/* All addresses of this host are one host. */
	proof = addr(127, 0, 0, 1, 7410);
	two[0] = fixture_locator(10, 1, 0, 5, 7411);
	near = list(1, two);
	side.same_host = true;
	assert_true(apus_ctl_locators_unicast(&policy, &side, &near, &near, &chosen, &reason));
}

static void prefixes_are_read_strictly(void **state)
{
	static const char *const wrong[] = {
		"",           "10.0.0",      "10.0.0.0/",   "10.0.0.0/33",
		"10.0.0.1/8", "10.0.0.0/8x", "10.0.0.0/-1", "host",
		"fd00::/129", "fd00::1/8",   "10.0.0.0/ 8", "10.0.0.0/99999999999999999999"};
	struct apus_ctl_address_prefix p, before;

	(void)state;
	assert_int_equal(apus_ctl_address_prefix_parse("0.0.0.0/0", &p), 0);
	assert_int_equal(p.bits, 0);
	assert_int_equal(apus_ctl_address_prefix_parse("fd00::/8", &p), 0);
	assert_int_equal(p.addr.family, AF_INET6);
	assert_int_equal(p.bits, 8);
	assert_int_equal(apus_ctl_address_prefix_parse("fd00::1", &p), 0);
	assert_int_equal(p.bits, 128);
	before = p;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		assert_int_equal(apus_ctl_address_prefix_parse(wrong[i], &p), APUS_EINVAL);
		assert_memory_equal(&p, &before, sizeof(p));
	}
}

static void families_do_not_mix(void **state)
{
	struct apus_ctl_locator_policy policy = policy_of(10, 1, 0, 5);
	struct apus_dp_addr six = {AF_INET6, 7, {0xfd, [15] = 1}};

	(void)state;
	assert_int_equal(passes(policy, false, six), 0); /* we have no such address */
	policy.own[policy.own_count] = six;
	policy.own[policy.own_count++].port = 0;
	assert_int_equal(passes(policy, false, six), 1);
	add_prefix(&policy.deny, "fd00::/64");
	assert_int_equal(passes(policy, false, six), 0);
	assert_int_equal(passes(policy, false, addr(10, 1, 0, 6, 1)), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_order_does_not_depend_on_the_input),
		cmocka_unit_test(gates_hold),
		cmocka_unit_test(too_many_candidates_are_cut),
		cmocka_unit_test(own_address_before_the_participants),
		cmocka_unit_test(other_kinds_are_passed_over),
		cmocka_unit_test(multicast_needs_the_policy),
		cmocka_unit_test(the_same_host_is_recognised),
		cmocka_unit_test(peers_expand_to_the_well_known_ports),
		cmocka_unit_test(locators_print_for_people),
		cmocka_unit_test(deny_wins_and_an_empty_allow_list_allows),
		cmocka_unit_test(switches_hold),
		cmocka_unit_test(only_the_proved_host_is_sent_to),
		cmocka_unit_test(prefixes_are_read_strictly),
		cmocka_unit_test(families_do_not_mix),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

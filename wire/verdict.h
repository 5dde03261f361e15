/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a decoder says about bytes from outside. A decoder never guesses, and its outputs may be used
 * only after ACCEPT.
 */
#ifndef APUS_WIRE_VERDICT_H
#define APUS_WIRE_VERDICT_H

/** Verdict of every decoder in wire/. Only a MALFORMED input raises a protocol-error counter. */
enum apus_wire_verdict {
	APUS_WIRE_ACCEPT = 0, /**< well-formed and understood; outputs are valid */
	APUS_WIRE_SKIP = 1, /**< well-formed as far as can be told, but not for us to understand */
	APUS_WIRE_MALFORMED = 2, /**< breaks the specification or one of our hard limits */
	APUS_WIRE_END = 3,       /**< iterators only (apus_wire_next): nothing is left to decode */
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * QoS as words, "reliability=reliable,history=keep_last:5", and back.
 *
 * One table names every word, its values and whom it is for. A word that has no effect in this version
 * is refused, not ignored: whoever writes it relies on it.
 */
#ifndef APUS_TOOLS_QOS_WORDS_H
#define APUS_TOOLS_QOS_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <apus/qos.h>

/** Most partition names of one endpoint, and bytes of all names in words together. */
#define QOS_PARTITIONS_MAX      64
#define QOS_PARTITION_BYTES_MAX 4096

/** A QoS with the storage its partitions need. Do not copy or move after parsing: it points into
 *  itself. */
struct qos_words {
	struct apus_qos qos;
	bool history_given; /**< a word has set the history */
	const char *partitions[QOS_PARTITIONS_MAX];
	char names[QOS_PARTITION_BYTES_MAX];
	size_t names_bytes;
};

/** Where and why words were refused. */
struct qos_error {
	size_t position; /**< bytes into the text */
	size_t length;   /**< bytes concerned */
	char reason[240];
};

/** Fills `*words` with the defaults of a writer or reader. */
void qos_words_init(struct qos_words *words, bool is_writer);

/**
 * Applies words to `*words`, then checks the whole by apus_qos_check().
 * text: words separated by commas, no blanks; "" changes nothing.
 * Returns 0, or APUS_EQOS with *error_out; then `*words` is unspecified.
 */
int qos_words_parse(struct qos_words *words, const char *text, bool is_writer,
		    struct qos_error *error_out);

/** Adds one partition name, which must stay valid; "" is the default partition. Returns 0 or
 *  APUS_ELIMIT. */
int qos_words_add_partition(struct qos_words *words, const char *name);

/**
 * Writes a QoS as words that differ from the defaults of its kind, reliability, durability and
 * history always: what qos_words_parse() understands, if the policy is one it has a word for.
 * Returns 0 or APUS_ELIMIT (cut off, but terminated).
 */
int qos_to_words(const struct apus_qos *qos, bool is_writer, char *text_out, size_t text_bytes);

/** Calls `visit` for each word of qos_to_words() except partition, as name and value. */
void qos_visit_words(const struct apus_qos *qos, bool is_writer,
		     void (*visit)(const char *name, const char *value, void *user), void *user);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a participant answers when it is asked what it shares: a head and rows in a memfd that nobody can shrink. Between
 * processes of one version only: `size` and APUS_CTL_SHM_REPORT change with it. Who reads it copies each row before
 * looking at it.
 */
#ifndef APUS_CONTROL_SHM_REPORT_H
#define APUS_CONTROL_SHM_REPORT_H

#include <apus/core.h>
#include <stdint.h>

#define APUS_CTL_SHM_REPORT   UINT32_C(0x31525053) /* "SPR1" */
#define APUS_CTL_SHM_ROWS_MAX 65536u

struct apus_ctl_shm_report_row {
	uint32_t kind; /* enum apus_host_kind, but PROCESS */
	uint32_t pid, dead;
	uint32_t slot_bytes, slots, slots_used, waiting, pad;
	uint64_t bytes;
	struct apus_guid writer, reader;
	char topic[256];
};

struct apus_ctl_shm_report {
	uint32_t magic, size; /* of a row */
	uint32_t pid, row_count;
	uint64_t bytes; /* of memory, all rows together */
	struct apus_ctl_shm_report_row rows[];
};

#endif

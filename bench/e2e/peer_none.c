/* SPDX-License-Identifier: Apache-2.0 */
/* Stands for the implementations that this build does not have; see peer.h. */
#include "peer.h"

#include <stddef.h>

#ifndef BENCH_CYCLONE
const struct peer *const peer_cyclone = NULL;
#endif
#ifndef BENCH_FASTDDS
const struct peer *const peer_fastdds = NULL;
#endif
#ifndef BENCH_ZEROMQ
const struct peer *const peer_zeromq = NULL;
#endif

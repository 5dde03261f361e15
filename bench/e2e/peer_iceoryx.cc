/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iceoryx (2.0) in the benchmark of routes: its untyped publisher and subscriber, polled. Payloads are written into
 * and read from its chunks in place. Reliable: the publisher waits for a full queue, nothing is lost; best effort: the
 * oldest is discarded. Its daemon, iox-roudi, must run.
 */
#include "peer.h"

#include <cstdio>
#include <cstring>
#include <memory>

#include <unistd.h>

#include <iceoryx_posh/popo/untyped_publisher.hpp>
#include <iceoryx_posh/popo/untyped_subscriber.hpp>
#include <iceoryx_posh/runtime/posh_runtime.hpp>
#include <iceoryx_versions.hpp>

namespace
{
constexpr uint32_t QUEUE_MAX = 256;

struct Endpoint {
	peer_options options{};
	std::unique_ptr<iox::popo::UntypedPublisher> publisher;
	std::unique_ptr<iox::popo::UntypedSubscriber> subscriber;
};

void join()
{
	static bool joined;
	char name[128]; /* as much as it looks at */

	if (joined)
		return;
	snprintf(name, sizeof(name), "apus-bench-%d", static_cast<int>(getpid()));
	iox::runtime::PoshRuntime::initRuntime(
		iox::RuntimeName_t(iox::cxx::TruncateToCapacity, name));
	joined = true;
}

void *iceoryx_open(const peer_options *o)
{
	Endpoint *e = new Endpoint;
	char name[128]; /* as much as it looks at */

	join();
	e->options = *o;
	snprintf(name, sizeof(name), "%s_%u_%d", o->topic ? o->topic : "peer", o->bytes,
		 o->reliable);
	iox::capro::ServiceDescription service{
		"apus", "bench", iox::capro::IdString_t(iox::cxx::TruncateToCapacity, name)};
	if (o->writer) {
		iox::popo::PublisherOptions options;
		options.subscriberTooSlowPolicy =
			o->reliable ? iox::popo::ConsumerTooSlowPolicy::WAIT_FOR_CONSUMER
				    : iox::popo::ConsumerTooSlowPolicy::DISCARD_OLDEST_DATA;
		e->publisher = std::make_unique<iox::popo::UntypedPublisher>(service, options);
	} else {
		iox::popo::SubscriberOptions options;
		options.queueCapacity = o->history < QUEUE_MAX ? o->history : QUEUE_MAX;
		options.queueFullPolicy = o->reliable
						  ? iox::popo::QueueFullPolicy::BLOCK_PRODUCER
						  : iox::popo::QueueFullPolicy::DISCARD_OLDEST_DATA;
		e->subscriber = std::make_unique<iox::popo::UntypedSubscriber>(service, options);
	}
	return e;
}

uint32_t iceoryx_matched(void *endpoint)
{
	Endpoint *e = static_cast<Endpoint *>(endpoint);

	if (e->publisher)
		return e->publisher->hasSubscribers() ? UINT32_MAX : 0;
	return e->subscriber->getSubscriptionState() == iox::SubscribeState::SUBSCRIBED;
}

void *iceoryx_loan(void *endpoint)
{
	Endpoint *e = static_cast<Endpoint *>(endpoint);
	void *chunk = nullptr;

	e->publisher->loan(e->options.bytes).and_then([&](void *given) { chunk = given; });
	return chunk;
}

bool iceoryx_publish(void *endpoint, void *loan)
{
	static_cast<Endpoint *>(endpoint)->publisher->publish(loan);
	return true;
}

bool iceoryx_write(void *endpoint, const void *sample)
{
	void *chunk = iceoryx_loan(endpoint);

	if (!chunk)
		return false;
	memcpy(chunk, sample, static_cast<Endpoint *>(endpoint)->options.bytes);
	return iceoryx_publish(endpoint, chunk);
}

uint32_t iceoryx_poll(void *endpoint)
{
	Endpoint *e = static_cast<Endpoint *>(endpoint);
	uint32_t n = 0;

	if (!e->subscriber)
		return 0;
	e->subscriber->take().and_then([&](const void *chunk) {
		e->options.on_sample(e->options.user, chunk);
		e->subscriber->release(chunk);
		n = 1;
	});
	return n;
}

void iceoryx_drain(void *endpoint)
{
	(void)endpoint;
}

const char *iceoryx_version()
{
	return ICEORYX_LATEST_RELEASE_VERSION;
}

const char *const iceoryx_routes[] = {"shm", nullptr};

const peer iceoryx = {"iceoryx",       false,         iceoryx_open,   iceoryx_matched,
		      iceoryx_write,   iceoryx_drain, iceoryx_routes, iceoryx_version,
		      nullptr,         iceoryx_poll,  nullptr,        iceoryx_loan,
		      iceoryx_publish, nullptr};
} // namespace

const struct peer *const peer_iceoryx = &iceoryx;

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fast DDS (2.9) publisher or subscriber of ShapeType, run by the interop tests and the demo.
 * Command line and output: peer.h. One UDPv4 transport bound to the given interface, no shared memory,
 * no data sharing, so that every sample is on the wire.
 */
#include "peer.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <fastdds/dds/core/condition/WaitSet.hpp>
#include <fastdds/dds/domain/DomainParticipant.hpp>
#include <fastdds/dds/domain/DomainParticipantFactory.hpp>
#include <fastdds/dds/log/Log.hpp>
#include <fastdds/dds/publisher/DataWriter.hpp>
#include <fastdds/dds/publisher/Publisher.hpp>
#include <fastdds/dds/subscriber/DataReader.hpp>
#include <fastdds/dds/subscriber/SampleInfo.hpp>
#include <fastdds/dds/subscriber/Subscriber.hpp>
#include <fastdds/dds/topic/ContentFilteredTopic.hpp>
#include <fastdds/dds/topic/TypeSupport.hpp>
#include <fastdds/rtps/transport/UDPv4TransportDescriptor.h>
#include <fastdds/rtps/transport/UDPv6TransportDescriptor.h>
#include <fastrtps/utils/IPLocator.h>

#include "shape_fastdds.h"

using namespace eprosima::fastdds::dds;
using eprosima::fastrtps::Duration_t;
using eprosima::fastrtps::rtps::InstanceHandle_t;
using eprosima::fastrtps::rtps::IPLocator;
using eprosima::fastrtps::rtps::Locator_t;
using eprosima::fastrtps::types::ReturnCode_t;

namespace
{
struct Peer {
	peer_options options{};
	DomainParticipant *participant = nullptr;
	Publisher *publisher = nullptr;
	Subscriber *subscriber = nullptr;
	Topic *topic = nullptr;
	ContentFilteredTopic *filtered = nullptr;
	DataWriter *writer = nullptr;
	DataReader *reader = nullptr;
	WaitSet waitset;
	int64_t give_up_ns = 0;
	int current = 0, incompatible = 0; /* as last printed */
	peer_status status{};              /* the same */
	int samples = 0, not_alive = 0;
	/* Colours by instance: a sample without data carries only the instance's handle. */
	std::map<InstanceHandle_t, std::string> colors;
};

template <typename T> T *must(T *made, const char *what)
{
	if (!made) {
		fprintf(stderr, "peer-fastdds: cannot create %s\n", what);
		exit(3);
	}
	return made;
}

void must_succeed(ReturnCode_t result, const char *what)
{
	if (result != ReturnCode_t::RETCODE_OK) {
		fprintf(stderr, "peer-fastdds: %s: return code %u\n", what, result());
		exit(3);
	}
}

/* The white list takes addresses only. */
std::string address_of(const char *interface)
{
	std::string found = interface;
	char text[INET_ADDRSTRLEN];
	ifaddrs *all;

	if (getifaddrs(&all) != 0)
		return found;
	for (ifaddrs *i = all; i; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET ||
		    strcmp(i->ifa_name, interface))
			continue;
		found = inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in *>(i->ifa_addr)->sin_addr,
				  text, sizeof(text));
		break;
	}
	freeifaddrs(all);
	return found;
}

Duration_t seconds(double s)
{
	return Duration_t(static_cast<long double>(s));
}

/* Exactly: 0.3 as a double falls one nanosecond short, and is then another offer. */
Duration_t millis(int64_t ms)
{
	return Duration_t(static_cast<int32_t>(ms / 1000),
			  static_cast<uint32_t>(ms % 1000 * 1000000));
}

/* Unicast discovery: announce to the participant ports 0…7 of each peer, listen on no group. */
void use_unicast(const Peer &p, DomainParticipantQos &qos)
{
	auto &builtin = qos.wire_protocol().builtin;
	Locator_t own;

	IPLocator::setIPv4(own, address_of(p.options.interface));
	own.port = 0;
	builtin.metatrafficUnicastLocatorList.push_back(own);
	for (int i = 0; i < p.options.peer_count; i++) {
		for (uint32_t index = 0; index < 8; index++) {
			Locator_t peer;

			IPLocator::setIPv4(peer, std::string(p.options.peers[i]));
			peer.port = 7400 + 250 * static_cast<uint32_t>(p.options.domain) + 10 +
				    2 * index;
			builtin.initialPeersList.push_back(peer);
		}
	}
}

void create_participant(Peer &p)
{
	DomainParticipantQos qos;

	qos.transport().use_builtin_transports = false;
	if (std::string(p.options.interface).find(':') == std::string::npos) {
		auto transport =
			std::make_shared<eprosima::fastdds::rtps::UDPv4TransportDescriptor>();

		transport->interfaceWhiteList.push_back(address_of(p.options.interface));
		qos.transport().user_transports.push_back(transport);
	} else {
		auto transport =
			std::make_shared<eprosima::fastdds::rtps::UDPv6TransportDescriptor>();

		transport->interfaceWhiteList.push_back(p.options.interface);
		qos.transport().user_transports.push_back(transport);
	}
	qos.name("peer-fastdds");
	if (p.options.lease_s > 0) {
		auto &config = qos.wire_protocol().builtin.discovery_config;

		config.leaseDuration = seconds(p.options.lease_s);
		config.leaseDuration_announcementperiod = seconds(p.options.lease_s / 3);
	}
	if (!p.options.multicast)
		use_unicast(p, qos);
	p.participant = must(DomainParticipantFactory::get_instance()->create_participant(
				     static_cast<DomainId_t>(p.options.domain), qos),
			     "participant");
}

/* The policies writers and readers spell alike. */
template <typename Qos> void set_common(const peer_options &o, Qos &qos)
{
	qos.reliability().kind =
		o.reliable ? RELIABLE_RELIABILITY_QOS : BEST_EFFORT_RELIABILITY_QOS;
	qos.reliability().max_blocking_time = seconds(10);
	qos.durability().kind =
		o.transient_local ? TRANSIENT_LOCAL_DURABILITY_QOS : VOLATILE_DURABILITY_QOS;
	qos.history().kind = o.keep_all ? KEEP_ALL_HISTORY_QOS : KEEP_LAST_HISTORY_QOS;
	qos.history().depth = o.depth;
	/* Fast DDS wants the product, or refuses the endpoint. */
	qos.resource_limits().max_samples_per_instance = 5000;
	qos.resource_limits().max_instances = PEER_LIST_MAX;
	qos.resource_limits().max_samples = 5000 * PEER_LIST_MAX;
	qos.ownership().kind = o.exclusive ? EXCLUSIVE_OWNERSHIP_QOS : SHARED_OWNERSHIP_QOS;
	if (o.deadline_ms)
		qos.deadline().period = millis(o.deadline_ms);
	if (o.lifespan_ms)
		qos.lifespan().duration = millis(o.lifespan_ms);
	qos.liveliness().kind = static_cast<LivelinessQosPolicyKind>(o.liveliness);
	if (o.live_ms) {
		qos.liveliness().lease_duration = millis(o.live_ms);
		qos.liveliness().announcement_period = millis(o.live_ms / 3);
	}
	if (o.latency_ms)
		qos.latency_budget().duration = millis(o.latency_ms);
	if (o.by_source)
		qos.destination_order().kind = BY_SOURCE_TIMESTAMP_DESTINATIONORDER_QOS;
	qos.data_sharing().off();
}

void open_writer(Peer &p)
{
	const peer_options &o = p.options;
	PublisherQos publisher_qos;
	DataWriterQos qos;
	StatusMask mask = StatusMask::publication_matched()
			  << StatusMask::offered_incompatible_qos();

	for (int i = 0; i < o.partition_count; i++)
		publisher_qos.partition().push_back(o.partitions[i]);
	set_common(o, qos);
	qos.ownership_strength().value = static_cast<uint32_t>(o.strength);
	qos.writer_data_lifecycle().autodispose_unregistered_instances = false;
	if (o.heartbeat_ms)
		qos.reliable_writer_qos().times.heartbeatPeriod = seconds(o.heartbeat_ms / 1e3);
	p.publisher = must(p.participant->create_publisher(publisher_qos), "publisher");
	p.writer = must(p.publisher->create_datawriter(p.topic, qos), "writer");
	p.writer->get_statuscondition().set_enabled_statuses(mask);
	p.waitset.attach_condition(p.writer->get_statuscondition());
}

TopicDescription *reader_topic(Peer &p)
{
	std::vector<std::string> params(p.options.params, p.options.params + p.options.param_count);

	if (!p.options.filter)
		return p.topic;
	p.filtered = p.participant->create_contentfilteredtopic(
		std::string(p.options.topic) + "_filtered", p.topic, p.options.filter, params);
	if (!p.filtered) {
		fprintf(stderr, "peer-fastdds: Fast DDS refuses the filter '%s'\n",
			p.options.filter);
		exit(2);
	}
	return p.filtered;
}

void open_reader(Peer &p)
{
	SubscriberQos subscriber_qos;
	DataReaderQos qos;
	StatusMask mask = StatusMask::subscription_matched()
			  << StatusMask::requested_incompatible_qos()
			  << StatusMask::data_available();

	for (int i = 0; i < p.options.partition_count; i++)
		subscriber_qos.partition().push_back(p.options.partitions[i]);
	set_common(p.options, qos);
	if (!p.subscriber)
		p.subscriber = must(p.participant->create_subscriber(subscriber_qos), "subscriber");
	p.reader = must(p.subscriber->create_datareader(reader_topic(p), qos), "reader");
	p.reader->get_statuscondition().set_enabled_statuses(mask);
	p.waitset.attach_condition(p.reader->get_statuscondition());
}

void open_peer(Peer &p)
{
	TypeSupport type(new ShapeTypeSupport);

	register_shape_type_object();
	create_participant(p);
	must_succeed(type.register_type(p.participant), "type");
	p.topic = must(p.participant->create_topic(p.options.topic, "ShapeType", TOPIC_QOS_DEFAULT),
		       "topic");
	if (p.options.publish)
		open_writer(p);
	else if (!p.options.joins)
		open_reader(p);
}

void close_reader(Peer &p)
{
	if (!p.reader)
		return;
	p.waitset.detach_condition(p.reader->get_statuscondition());
	p.subscriber->delete_datareader(p.reader);
	p.reader = nullptr;
}

void close_peer(Peer &p)
{
	if (p.writer) {
		p.waitset.detach_condition(p.writer->get_statuscondition());
		p.publisher->delete_datawriter(p.writer);
		p.participant->delete_publisher(p.publisher);
	}
	close_reader(p);
	if (p.subscriber)
		p.participant->delete_subscriber(p.subscriber);
	if (p.filtered)
		p.participant->delete_contentfilteredtopic(p.filtered);
	p.participant->delete_topic(p.topic);
	DomainParticipantFactory::get_instance()->delete_participant(p.participant);
}

void poll_times(Peer &p)
{
	peer_status s{};

	if (p.writer) {
		OfferedDeadlineMissedStatus deadline;
		LivelinessLostStatus lost;

		p.writer->get_offered_deadline_missed_status(deadline);
		p.writer->get_liveliness_lost_status(lost);
		s.deadline = static_cast<int>(deadline.total_count);
		s.lost = static_cast<int>(lost.total_count);
	} else {
		RequestedDeadlineMissedStatus deadline;
		LivelinessChangedStatus live;

		p.reader->get_requested_deadline_missed_status(deadline);
		p.reader->get_liveliness_changed_status(live);
		s.deadline = static_cast<int>(deadline.total_count);
		s.alive = live.alive_count, s.not_alive = live.not_alive_count;
	}
	peer_print_status(&s, &p.status);
}

/* Reads both statuses and prints what changed. Returns the number of matched endpoints. */
int poll_status(Peer &p)
{
	int current, total, policy, incompatible;

	if (p.writer) {
		PublicationMatchedStatus matched;
		OfferedIncompatibleQosStatus refused;

		p.writer->get_publication_matched_status(matched);
		p.writer->get_offered_incompatible_qos_status(refused);
		current = matched.current_count, total = matched.total_count;
		policy = static_cast<int>(refused.last_policy_id);
		incompatible = static_cast<int>(refused.total_count);
	} else {
		SubscriptionMatchedStatus matched;
		RequestedIncompatibleQosStatus refused;

		p.reader->get_subscription_matched_status(matched);
		p.reader->get_requested_incompatible_qos_status(refused);
		current = matched.current_count, total = matched.total_count;
		policy = static_cast<int>(refused.last_policy_id);
		incompatible = static_cast<int>(refused.total_count);
	}
	if (current != p.current)
		peer_print_matched(current, total);
	if (incompatible != p.incompatible)
		peer_print_incompatible(policy, incompatible);
	p.current = current, p.incompatible = incompatible;
	poll_times(p);
	return current;
}

bool timed_out(const Peer &p)
{
	return peer_mono_ns() >= p.give_up_ns;
}

void wait_event(Peer &p, int64_t until_ns)
{
	int64_t left = until_ns - peer_mono_ns();
	ConditionSeq active;

	if (left > 50000000)
		left = 50000000;
	if (left > 0)
		p.waitset.wait(active, seconds(static_cast<double>(left) / 1e9));
}

void report(Peer &p, const Shape &shape, const SampleInfo &info)
{
	const bool disposed = info.instance_state == NOT_ALIVE_DISPOSED_INSTANCE_STATE;
	const bool orphaned = info.instance_state == NOT_ALIVE_NO_WRITERS_INSTANCE_STATE;
	uint8_t guid[16];
	peer_sample sample{};

	for (int i = 0; i < 16; i++)
		guid[i] = info.publication_handle.value[i];
	if (info.valid_data)
		p.colors[info.instance_handle] = shape.color;
	sample.writer = info.publication_handle.isDefined() ? guid : nullptr;
	sample.color =
		info.valid_data ? shape.color.c_str() : p.colors[info.instance_handle].c_str();
	sample.x = shape.x, sample.y = shape.y, sample.shapesize = shape.shapesize;
	sample.valid = info.valid_data;
	/* A sample's own state is alive; the instance state is the newest. */
	sample.state = info.valid_data || !(disposed || orphaned) ? "alive"
		       : disposed                                 ? "disposed"
								  : "no_writers";
	sample.source_ns = info.source_timestamp.to_ns();
	peer_print_sample(&sample);
	(info.valid_data ? p.samples : p.not_alive)++;
}

void take_all(Peer &p)
{
	Shape shape;
	SampleInfo info;

	while (p.reader->take_next_sample(&shape, &info) == ReturnCode_t::RETCODE_OK)
		report(p, shape, info);
}

bool satisfied(const Peer &p)
{
	return p.options.count && p.samples >= p.options.count &&
	       p.not_alive >= p.options.not_alive;
}

int subscribe(Peer &p)
{
	int64_t linger_until = 0;

	while (!peer_stopped()) {
		poll_status(p);
		take_all(p);
		if (satisfied(p) && !linger_until)
			linger_until =
				peer_mono_ns() + static_cast<int64_t>(p.options.linger_s * 1e9);
		if (linger_until && peer_mono_ns() >= linger_until)
			break;
		if (!linger_until && timed_out(p))
			return peer_print_done(p.samples, true, false);
		wait_event(p, linger_until ? linger_until : p.give_up_ns);
	}
	return peer_print_done(p.samples, false, false);
}

int join_repeatedly(Peer &p)
{
	int code = 0;

	for (int n = 1; n <= p.options.joins && code == 0 && !peer_stopped(); n++) {
		peer_join(&p.options, n);
		open_reader(p);
		p.samples = p.current = 0;
		p.give_up_ns = peer_mono_ns() + static_cast<int64_t>(p.options.timeout_s * 1e9);
		code = subscribe(p);
		close_reader(p);
	}
	return code;
}

/* Waits until `wanted` readers match, printing changes. False when time or patience ended. */
bool await_readers(Peer &p, int wanted)
{
	while (poll_status(p) < wanted) {
		if (peer_stopped() || timed_out(p))
			return false;
		wait_event(p, p.give_up_ns);
	}
	return true;
}

void write_samples(Peer &p)
{
	const peer_options &o = p.options;
	int64_t next_ns = peer_mono_ns();
	Shape shape;

	for (int n = 1; (!o.count || n <= o.count) && !peer_stopped() && !timed_out(p); n++) {
		shape.color = peer_color(&o, n);
		shape.x = peer_x(&o, n), shape.y = 2 * shape.x, shape.shapesize = o.size;
		if (!p.writer->write(&shape)) {
			fprintf(stderr, "peer-fastdds: write failed at sample %d\n", n);
			exit(3);
		}
		p.samples++;
		poll_status(p);
		if (o.rate_hz > 0) {
			next_ns += static_cast<int64_t>(1e9 / o.rate_hz);
			peer_sleep_until(next_ns);
		}
	}
}

void end_instances(Peer &p)
{
	Shape shape;

	if (p.options.dispose) {
		shape.color = p.options.dispose;
		must_succeed(p.writer->dispose(&shape, InstanceHandle_t()), "dispose");
	}
	if (p.options.unregister) {
		shape.color = p.options.unregister;
		must_succeed(p.writer->unregister_instance(&shape, InstanceHandle_t()),
			     "unregister");
	}
}

int publish(Peer &p)
{
	bool acknowledged = false;
	int64_t linger_until, assert_until;

	if (!await_readers(p, p.options.wait_matched))
		return peer_print_done(0, !peer_stopped(), false);
	peer_settle(&p.options);
	write_samples(p);
	end_instances(p);
	while (p.options.reliable && !acknowledged && !peer_stopped() && !timed_out(p)) {
		/* An acknowledgement may take a heartbeat period, 3 s: longer than a lease. */
		if (p.options.assert_ms)
			p.options.liveliness == 1 ? p.participant->assert_liveliness()
						  : p.writer->assert_liveliness();
		acknowledged = p.writer->wait_for_acknowledgments(seconds(0.1)) ==
			       ReturnCode_t::RETCODE_OK;
	}
	linger_until = peer_mono_ns() + static_cast<int64_t>(p.options.linger_s * 1e9);
	assert_until = peer_mono_ns() + static_cast<int64_t>(p.options.linger_s * 0.5e9);
	while (!peer_stopped() && peer_mono_ns() < linger_until) {
		if (p.options.assert_ms && peer_mono_ns() < assert_until)
			p.options.liveliness == 1 ? p.participant->assert_liveliness()
						  : p.writer->assert_liveliness();
		poll_status(p);
		if (p.options.assert_ms)
			peer_sleep_until(peer_mono_ns() + p.options.assert_ms * 1000000);
		else
			wait_event(p, linger_until);
	}
	return peer_print_done(p.samples, p.options.reliable && !acknowledged && !peer_stopped(),
			       acknowledged);
}
} // namespace

int main(int argc, char **argv)
{
	Peer p;
	int code;

	peer_parse(argc, argv, &p.options);
	peer_catch_signals();
	Log::SetVerbosity(Log::Kind::Error);
	open_peer(p);
	p.give_up_ns = peer_mono_ns() + static_cast<int64_t>(p.options.timeout_s * 1e9);
	peer_print_ready(&p.options, "fastdds");
	code = p.options.publish ? publish(p) : p.options.joins ? join_repeatedly(p) : subscribe(p);
	close_peer(p);
	return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fast DDS (2.9) in the benchmarks: UDP on loopback unless another route is asked for, 1 MB of receive buffer, preallocated
 * samples. It writes synchronously, but for samples larger than a datagram, which it only fragments
 * asynchronously. Samples are taken by a listener. It has no batching.
 */
#include "peer.h"

#include <cstdio>
#include <cstring>

#include <fastdds/dds/domain/DomainParticipant.hpp>
#include <fastdds/dds/domain/DomainParticipantFactory.hpp>
#include <fastdds/dds/publisher/DataWriter.hpp>
#include <fastdds/dds/publisher/Publisher.hpp>
#include <fastdds/dds/subscriber/DataReader.hpp>
#include <fastdds/dds/subscriber/DataReaderListener.hpp>
#include <fastdds/dds/subscriber/SampleInfo.hpp>
#include <fastdds/dds/subscriber/Subscriber.hpp>
#include <fastdds/dds/topic/TopicDataType.hpp>
#include <fastdds/dds/topic/TypeSupport.hpp>
#include <fastdds/rtps/transport/UDPv4TransportDescriptor.h>
#include <fastdds/rtps/transport/shared_mem/SharedMemTransportDescriptor.h>
#include <fastrtps/config.h>

using namespace eprosima::fastdds::dds;
using eprosima::fastrtps::Duration_t;
using eprosima::fastrtps::rtps::InstanceHandle_t;
using eprosima::fastrtps::rtps::SerializedPayload_t;
using eprosima::fastrtps::types::ReturnCode_t;

namespace
{
/* The image is the CDR body: what its generator makes of plain types is a copy as well. */
class PlainType : public TopicDataType
{
      public:
	explicit PlainType(uint32_t bytes) : bytes_(bytes)
	{
		char name[32];

		snprintf(name, sizeof(name), "Bench%u", bytes);
		setName(name);
		m_typeSize = bytes + 4;
		m_isGetKeyDefined = false;
		auto_fill_type_object(false);
		auto_fill_type_information(false);
	}

	bool serialize(void *data, SerializedPayload_t *payload) override
	{
		static const uint8_t head[4] = {0, 1, 0, 0};

		memcpy(payload->data, head, 4);
		memcpy(payload->data + 4, data, bytes_);
		payload->encapsulation = CDR_LE;
		payload->length = bytes_ + 4;
		return true;
	}

	bool deserialize(SerializedPayload_t *payload, void *data) override
	{
		if (payload->length < bytes_ + 4)
			return false;
		memcpy(data, payload->data + 4, bytes_);
		return true;
	}

	std::function<uint32_t()> getSerializedSizeProvider(void *) override
	{
		uint32_t bytes = bytes_ + 4;

		return [bytes]() { return bytes; };
	}

	void *createData() override
	{
		return new uint64_t[bytes_ / 8];
	}

	void deleteData(void *data) override
	{
		delete[] static_cast<uint64_t *>(data);
	}

	bool getKey(void *, InstanceHandle_t *, bool) override
	{
		return false;
	}

      private:
	uint32_t bytes_;
};

struct Endpoint : DataReaderListener {
	peer_options options{};
	DataWriter *writer = nullptr;
	DataReader *reader = nullptr;
	uint64_t *sample = nullptr;

	void on_data_available(DataReader *r) override
	{
		SampleInfo info;

		while (r->take_next_sample(sample, &info) == ReturnCode_t::RETCODE_OK)
			if (info.valid_data)
				options.on_sample(options.user, sample);
	}
};

DomainParticipant *participant;
Publisher *publisher;
Subscriber *subscriber;

bool is_route(const peer_options &o, const char *route)
{
	return o.route && strcmp(o.route, route) == 0;
}

/* "shm": its shared-memory transport, with UDP for what that does not do. "sharing": payloads by data sharing in
 * addition, where it has it on as well. Both with segments and ports large enough for what is sent. */
void set_transports(const peer_options &o, DomainParticipantQos &qos)
{
	auto transport = std::make_shared<eprosima::fastdds::rtps::UDPv4TransportDescriptor>();

	transport->interfaceWhiteList.push_back(o.address ? o.address : "127.0.0.1");
	transport->receiveBufferSize = 1 << 20;
	qos.transport().use_builtin_transports = false;
	if (is_route(o, "shm") || is_route(o, "sharing")) {
		auto shm =
			std::make_shared<eprosima::fastdds::rtps::SharedMemTransportDescriptor>();

		shm->segment_size(16u << 20);
		shm->port_queue_capacity(1024);
		qos.transport().user_transports.push_back(shm);
	}
	qos.transport().user_transports.push_back(transport);
}

bool join(const peer_options &o)
{
	DomainParticipantQos qos;
	uint32_t domain = o.domain;

	if (participant)
		return true;
	set_transports(o, qos);
	participant = DomainParticipantFactory::get_instance()->create_participant(
		static_cast<DomainId_t>(domain), qos);
	if (!participant)
		return false;
	publisher = participant->create_publisher(PUBLISHER_QOS_DEFAULT);
	subscriber = participant->create_subscriber(SUBSCRIBER_QOS_DEFAULT);
	return publisher && subscriber;
}

template <typename Qos> void set_qos(const peer_options &o, Qos &qos)
{
	qos.reliability().kind =
		o.reliable ? RELIABLE_RELIABILITY_QOS : BEST_EFFORT_RELIABILITY_QOS;
	qos.reliability().max_blocking_time = Duration_t(1, 0);
	qos.history().kind = KEEP_ALL_HISTORY_QOS;
	qos.resource_limits().max_samples = static_cast<int32_t>(o.history);
	qos.resource_limits().max_instances = 1;
	qos.resource_limits().max_samples_per_instance = static_cast<int32_t>(o.history);
	qos.resource_limits().allocated_samples = static_cast<int32_t>(o.history);
	qos.endpoint().history_memory_policy =
		o.bytes > 60000 ? eprosima::fastrtps::rtps::DYNAMIC_REUSABLE_MEMORY_MODE
				: eprosima::fastrtps::rtps::PREALLOCATED_MEMORY_MODE;
	if (is_route(o, "sharing")) {
		qos.data_sharing().automatic();
		qos.endpoint().history_memory_policy =
			eprosima::fastrtps::rtps::PREALLOCATED_MEMORY_MODE;
	} else {
		qos.data_sharing().off();
	}
}

void make_endpoint(Endpoint *e, Topic *topic)
{
	const peer_options &o = e->options;

	if (o.writer) {
		DataWriterQos qos;

		set_qos(o, qos);
		qos.durability().kind = VOLATILE_DURABILITY_QOS;
		qos.publish_mode().kind =
			o.bytes > 60000 ? ASYNCHRONOUS_PUBLISH_MODE : SYNCHRONOUS_PUBLISH_MODE;
		qos.reliable_writer_qos().times.heartbeatPeriod = Duration_t(0, 10000000);
		e->writer = publisher->create_datawriter(topic, qos);
	} else {
		DataReaderQos qos;

		set_qos(o, qos);
		e->sample = new uint64_t[o.bytes / 8];
		e->reader =
			subscriber->create_datareader(topic, qos, e, StatusMask::data_available());
	}
}

void *fastdds_open(const peer_options *o)
{
	TypeSupport type(new PlainType(o->bytes));
	Endpoint *e = new Endpoint;
	char name[64];
	Topic *topic;

	if (!join(*o))
		return nullptr;
	e->options = *o;
	type.register_type(participant);
	snprintf(name, sizeof(name), "bench_%s_%u_%d", o->topic ? o->topic : "peer", o->bytes,
		 o->reliable);
	/* One topic for all its readers. */
	topic = dynamic_cast<Topic *>(participant->lookup_topicdescription(name));
	if (!topic)
		topic = participant->create_topic(name, type->getName(), TOPIC_QOS_DEFAULT);
	if (topic)
		make_endpoint(e, topic);
	return e->writer || e->reader ? e : nullptr;
}

uint32_t fastdds_matched(void *endpoint)
{
	Endpoint *e = static_cast<Endpoint *>(endpoint);
	PublicationMatchedStatus written{};
	SubscriptionMatchedStatus read{};

	if (e->writer)
		e->writer->get_publication_matched_status(written);
	else
		e->reader->get_subscription_matched_status(read);
	return static_cast<uint32_t>(written.current_count + read.current_count);
}

bool fastdds_write(void *endpoint, const void *sample)
{
	return static_cast<Endpoint *>(endpoint)->writer->write(const_cast<void *>(sample));
}

void fastdds_drain(void *endpoint)
{
	Endpoint *e = static_cast<Endpoint *>(endpoint);

	if (e->options.reliable)
		e->writer->wait_for_acknowledgments(Duration_t(2, 0));
}

const char *fastdds_version()
{
	return FASTRTPS_VERSION_STR;
}

const char *const fastdds_routes[] = {"udp", "shm", "sharing", nullptr};

const peer fastdds = {"fastdds",     false,         fastdds_open,   fastdds_matched,
		      fastdds_write, fastdds_drain, fastdds_routes, fastdds_version,
		      nullptr,       nullptr,       nullptr,        nullptr,
		      nullptr,       nullptr};
} // namespace

const struct peer *const peer_fastdds = &fastdds;

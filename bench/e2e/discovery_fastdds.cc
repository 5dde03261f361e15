/* SPDX-License-Identifier: Apache-2.0 */
/* Discovery in bulk, Fast DDS (2.9), UDP only on loopback; see discovery.h. */
#include "discovery.h"

#include <vector>

#include <fastdds/dds/domain/DomainParticipant.hpp>
#include <fastdds/dds/domain/DomainParticipantFactory.hpp>
#include <fastdds/dds/publisher/DataWriter.hpp>
#include <fastdds/dds/publisher/Publisher.hpp>
#include <fastdds/dds/subscriber/DataReader.hpp>
#include <fastdds/dds/subscriber/Subscriber.hpp>
#include <fastdds/dds/topic/TopicDataType.hpp>
#include <fastdds/dds/topic/TypeSupport.hpp>
#include <fastdds/rtps/transport/UDPv4TransportDescriptor.h>

using namespace eprosima::fastdds::dds;
using eprosima::fastrtps::rtps::InstanceHandle_t;
using eprosima::fastrtps::rtps::SerializedPayload_t;

namespace
{
/* 16 bytes, as they are. */
class PlainType : public TopicDataType
{
      public:
	PlainType()
	{
		setName("Bench16");
		m_typeSize = 20;
		m_isGetKeyDefined = false;
		auto_fill_type_object(false);
		auto_fill_type_information(false);
	}

	bool serialize(void *, SerializedPayload_t *payload) override
	{
		memset(payload->data, 0, 20);
		payload->length = 20;
		return true;
	}

	bool deserialize(SerializedPayload_t *, void *) override
	{
		return true;
	}

	std::function<uint32_t()> getSerializedSizeProvider(void *) override
	{
		return []() { return 20u; };
	}

	void *createData() override
	{
		return new uint64_t[2];
	}

	void deleteData(void *data) override
	{
		delete[] static_cast<uint64_t *>(data);
	}

	bool getKey(void *, InstanceHandle_t *, bool) override
	{
		return false;
	}
};

DomainParticipant *join(uint32_t domain)
{
	auto udp = std::make_shared<eprosima::fastdds::rtps::UDPv4TransportDescriptor>();
	DomainParticipantQos qos = PARTICIPANT_QOS_DEFAULT;

	udp->interfaceWhiteList.push_back("127.0.0.1");
	qos.transport().use_builtin_transports = false;
	qos.transport().user_transports.push_back(udp);
	return DomainParticipantFactory::get_instance()->create_participant(domain, qos);
}

struct Endpoint {
	DataWriter *writer = nullptr;
	DataReader *reader = nullptr;

	bool matched() const
	{
		PublicationMatchedStatus publication;
		SubscriptionMatchedStatus subscription;

		if (writer) {
			writer->get_publication_matched_status(publication);
			return publication.current_count > 0;
		}
		reader->get_subscription_matched_status(subscription);
		return subscription.current_count > 0;
	}
};
} // namespace

int main(int argc, char **argv)
{
	double begun;
	struct bulk_options o;
	std::vector<Endpoint> endpoints;
	uint32_t next = 0;

	if (!bulk_parse(argc, argv, &o))
		return 2;
	begun = bulk_begin();
	DomainParticipant *participant = join(o.domain);
	if (!participant)
		return 3;
	TypeSupport type(new PlainType());
	type.register_type(participant);
	Publisher *publisher = participant->create_publisher(PUBLISHER_QOS_DEFAULT);
	Subscriber *subscriber = participant->create_subscriber(SUBSCRIBER_QOS_DEFAULT);
	DataWriterQos writer_qos = DATAWRITER_QOS_DEFAULT;
	DataReaderQos reader_qos = DATAREADER_QOS_DEFAULT;
	writer_qos.reliability().kind = reader_qos.reliability().kind = RELIABLE_RELIABILITY_QOS;
	writer_qos.resource_limits().max_samples = reader_qos.resource_limits().max_samples = 1;
	writer_qos.resource_limits().allocated_samples = 1;
	reader_qos.resource_limits().allocated_samples = 1;
	for (uint32_t i = 0; i < o.endpoints; i++) {
		char name[32];
		Endpoint e;

		bulk_topic(i, name);
		Topic *topic = participant->create_topic(name, "Bench16", TOPIC_QOS_DEFAULT);
		if (bulk_is_writer(&o, i))
			e.writer = publisher->create_datawriter(topic, writer_qos);
		else
			e.reader = subscriber->create_datareader(topic, reader_qos);
		if (!e.writer && !e.reader)
			return 3;
		endpoints.push_back(e);
	}
	while (next < o.endpoints && bulk_now() - begun < BULK_TIMEOUT_S) {
		if (endpoints[next].matched())
			next++;
		else
			bulk_pause();
	}
	int code = bulk_finish(begun, next == o.endpoints);
	_Exit(code);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fast DDS (2.9) publisher or subscriber of Blob; command line and output in blob.h. UDP only, on the
 * given interface. Publishing is asynchronous: Fast DDS fragments in no other mode.
 */
#include "blob.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <fastcdr/Cdr.h>
#include <fastcdr/FastBuffer.h>
#include <fastdds/dds/domain/DomainParticipant.hpp>
#include <fastdds/dds/domain/DomainParticipantFactory.hpp>
#include <fastdds/dds/publisher/DataWriter.hpp>
#include <fastdds/dds/publisher/Publisher.hpp>
#include <fastdds/dds/subscriber/DataReader.hpp>
#include <fastdds/dds/subscriber/SampleInfo.hpp>
#include <fastdds/dds/subscriber/Subscriber.hpp>
#include <fastdds/dds/topic/TopicDataType.hpp>
#include <fastdds/dds/topic/TypeSupport.hpp>
#include <fastdds/rtps/transport/UDPv4TransportDescriptor.h>

using namespace eprosima::fastdds::dds;
using eprosima::fastcdr::Cdr;
using eprosima::fastcdr::FastBuffer;
using eprosima::fastrtps::Duration_t;
using eprosima::fastrtps::rtps::InstanceHandle_t;
using eprosima::fastrtps::rtps::SerializedPayload_t;
using eprosima::fastrtps::types::ReturnCode_t;

namespace
{
struct BlobData {
	uint32_t kid = 0;
	std::vector<uint8_t> data;
};

class BlobType : public TopicDataType
{
      public:
	explicit BlobType(uint32_t bytes)
	{
		setName("Blob");
		m_typeSize = bytes + BLOB_OVERHEAD_BYTES;
		m_isGetKeyDefined = true;
		auto_fill_type_object(false);
		auto_fill_type_information(false);
	}

	bool serialize(void *data, SerializedPayload_t *payload) override
	{
		BlobData *blob = static_cast<BlobData *>(data);
		FastBuffer buffer(reinterpret_cast<char *>(payload->data), payload->max_size);
		Cdr cdr(buffer, Cdr::LITTLE_ENDIANNESS, Cdr::DDS_CDR);

		payload->encapsulation = CDR_LE;
		cdr.serialize_encapsulation();
		cdr << blob->kid << static_cast<uint32_t>(blob->data.size());
		cdr.serializeArray(blob->data.data(), blob->data.size());
		payload->length = static_cast<uint32_t>(cdr.getSerializedDataLength());
		return true;
	}

	bool deserialize(SerializedPayload_t *payload, void *data) override
	{
		BlobData *blob = static_cast<BlobData *>(data);
		FastBuffer buffer(reinterpret_cast<char *>(payload->data), payload->length);
		Cdr cdr(buffer, Cdr::DEFAULT_ENDIAN, Cdr::DDS_CDR);
		uint32_t bytes = 0;

		try {
			cdr.read_encapsulation();
			cdr >> blob->kid >> bytes;
			if (bytes > payload->length)
				return false;
			blob->data.resize(bytes);
			cdr.deserializeArray(blob->data.data(), bytes);
		} catch (eprosima::fastcdr::exception::Exception &) {
			return false;
		}
		return true;
	}

	std::function<uint32_t()> getSerializedSizeProvider(void *data) override
	{
		return [data]() {
			return static_cast<uint32_t>(static_cast<BlobData *>(data)->data.size()) +
			       BLOB_OVERHEAD_BYTES;
		};
	}

	void *createData() override
	{
		return new BlobData;
	}

	void deleteData(void *data) override
	{
		delete static_cast<BlobData *>(data);
	}

	bool getKey(void *data, InstanceHandle_t *handle, bool) override
	{
		uint32_t kid = static_cast<BlobData *>(data)->kid;

		for (int i = 0; i < 16; i++)
			handle->value[i] = i < 4 ? static_cast<uint8_t>(kid >> (24 - 8 * i)) : 0;
		return true;
	}
};

struct Peer {
	blob_options options{};
	DomainParticipant *participant = nullptr;
	Topic *topic = nullptr;
	DataWriter *writer = nullptr;
	DataReader *reader = nullptr;
	int64_t give_up_ns = 0;
};

template <typename T> T *must(T *made, const char *what)
{
	if (!made) {
		fprintf(stderr, "blob-fastdds: cannot create %s\n", what);
		exit(3);
	}
	return made;
}

void create_participant(Peer &p)
{
	auto transport = std::make_shared<eprosima::fastdds::rtps::UDPv4TransportDescriptor>();
	DomainParticipantQos qos;

	transport->interfaceWhiteList.push_back(p.options.interface);
	if (p.options.message_bytes)
		transport->maxMessageSize = static_cast<uint32_t>(p.options.message_bytes);
	qos.transport().use_builtin_transports = false;
	qos.transport().user_transports.push_back(transport);
	p.participant = must(DomainParticipantFactory::get_instance()->create_participant(
				     static_cast<DomainId_t>(p.options.domain), qos),
			     "participant");
}

template <typename Qos> void set_common(const blob_options &o, Qos &qos)
{
	qos.reliability().kind =
		o.reliable ? RELIABLE_RELIABILITY_QOS : BEST_EFFORT_RELIABILITY_QOS;
	qos.reliability().max_blocking_time = Duration_t(60, 0);
	qos.history().kind = o.reliable ? KEEP_ALL_HISTORY_QOS : KEEP_LAST_HISTORY_QOS;
	qos.history().depth = o.depth;
	qos.resource_limits().max_samples_per_instance = o.depth;
	qos.resource_limits().max_instances = 2;
	qos.resource_limits().max_samples = 2 * o.depth;
	qos.resource_limits().allocated_samples = 1;
	qos.endpoint().history_memory_policy =
		eprosima::fastrtps::rtps::DYNAMIC_REUSABLE_MEMORY_MODE;
	qos.data_sharing().off();
}

void open_peer(Peer &p)
{
	TypeSupport type(new BlobType(p.options.size_max));

	create_participant(p);
	type.register_type(p.participant);
	p.topic = must(p.participant->create_topic(p.options.topic, "Blob", TOPIC_QOS_DEFAULT),
		       "topic");
	if (p.options.publish) {
		DataWriterQos qos;

		set_common(p.options, qos);
		qos.durability().kind = VOLATILE_DURABILITY_QOS;
		qos.publish_mode().kind = ASYNCHRONOUS_PUBLISH_MODE;
		qos.reliable_writer_qos().times.heartbeatPeriod = Duration_t(0, 100000000);
		p.writer = must(
			must(p.participant->create_publisher(PUBLISHER_QOS_DEFAULT), "publisher")
				->create_datawriter(p.topic, qos),
			"writer");
	} else {
		DataReaderQos qos;

		set_common(p.options, qos);
		p.reader = must(
			must(p.participant->create_subscriber(SUBSCRIBER_QOS_DEFAULT), "subscriber")
				->create_datareader(p.topic, qos),
			"reader");
	}
}

bool matched(Peer &p)
{
	PublicationMatchedStatus status;

	p.writer->get_publication_matched_status(status);
	return status.current_count > 0;
}

int publish(Peer &p)
{
	const blob_options &o = p.options;
	uint8_t *pattern = blob_pattern(&o);
	bool acked = !o.reliable;
	int code;
	int64_t begun_ns;

	while (!matched(p)) {
		if (blob_stopped() || blob_now_ns() > p.give_up_ns)
			return blob_print_done(0, true, 0);
		blob_sleep(0.01);
	}
	/* Its announcement may get through seconds after its match: it heartbeats every 3 s there. */
	blob_sleep(o.reliable ? 0.5 : 4);
	begun_ns = blob_now_ns();
	for (int i = 0; i < o.size_count && !blob_stopped(); i++) {
		BlobData blob;

		blob.kid = 1;
		blob.data.assign(pattern, pattern + o.sizes[i]);
		if (!p.writer->write(&blob)) {
			fprintf(stderr, "blob-fastdds: write failed at sample %d\n", i + 1);
			exit(3);
		}
		if (o.rate_hz > 0)
			blob_sleep(1 / o.rate_hz);
	}
	while (!acked && !blob_stopped() && blob_now_ns() < p.give_up_ns)
		acked = p.writer->wait_for_acknowledgments(Duration_t(0, 100000000)) ==
			ReturnCode_t::RETCODE_OK;
	code = blob_print_done(o.size_count, !acked, begun_ns);
	blob_sleep(o.linger_s);
	return code;
}

int subscribe(Peer &p)
{
	const blob_options &o = p.options;
	uint8_t *pattern = blob_pattern(&o);
	int64_t begun_ns = 0;
	int taken = 0, code;
	BlobData blob;
	SampleInfo info;

	while (taken < o.size_count && !blob_stopped() && blob_now_ns() < p.give_up_ns) {
		if (p.reader->take_next_sample(&blob, &info) != ReturnCode_t::RETCODE_OK) {
			p.reader->wait_for_unread_message(Duration_t(0, 50000000));
			continue;
		}
		if (!info.valid_data)
			continue;
		begun_ns = begun_ns ? begun_ns : blob_now_ns();
		blob_print_sample(&o, pattern, blob.data.data(),
				  static_cast<uint32_t>(blob.data.size()));
		taken++;
	}
	code = blob_print_done(taken, taken < o.size_count && !blob_stopped(), begun_ns);
	blob_sleep(o.linger_s);
	return code;
}
} // namespace

int main(int argc, char **argv)
{
	Peer p;
	int code;

	blob_parse(argc, argv, &p.options);
	open_peer(p);
	p.give_up_ns = blob_now_ns() + static_cast<int64_t>(p.options.timeout_s * 1e9);
	code = p.options.publish ? publish(p) : subscribe(p);
	p.participant->delete_contained_entities();
	DomainParticipantFactory::get_instance()->delete_participant(p.participant);
	return code;
}

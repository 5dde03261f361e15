/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: whatever Fast DDS 2.9.1 puts on the wire for a dispose or unregister, the Apus reader finds the
 * instance.
 * Method: both in one process. Its types are made as its generator makes them: keys in declaration order
 * through Fast CDR, big-endian, MD5 where the longest may exceed 16 bytes. Payloads are XCDR1, which
 * both agree on.
 *
 * Usage: keys_fastdds [SUFFIX]    see keys_live_begin()
 */
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <fastcdr/Cdr.h>
#include <fastcdr/FastBuffer.h>
#include <fastdds/dds/domain/DomainParticipant.hpp>
#include <fastdds/dds/domain/DomainParticipantFactory.hpp>
#include <fastdds/dds/publisher/DataWriter.hpp>
#include <fastdds/dds/publisher/Publisher.hpp>
#include <fastdds/dds/topic/TopicDataType.hpp>
#include <fastdds/dds/topic/TypeSupport.hpp>
#include <fastdds/rtps/transport/UDPv4TransportDescriptor.h>
#include <fastrtps/utils/md5.h>

#include "keys_live.h"

using namespace eprosima::fastdds::dds;
using eprosima::fastcdr::Cdr;
using eprosima::fastcdr::FastBuffer;
using eprosima::fastrtps::Duration_t;
using eprosima::fastrtps::rtps::InstanceHandle_t;
using eprosima::fastrtps::rtps::SerializedPayload_t;
using eprosima::fastrtps::types::ReturnCode_t;

namespace
{
constexpr size_t room = 4096;

void put_scalar(Cdr &cdr, const apus_type *type, const uint8_t *value)
{
	uint16_t v16;
	uint32_t v32;
	uint64_t v64;

	switch (type->size_bytes) {
	case 1: cdr << *value; break;
	case 2:
		memcpy(&v16, value, sizeof(v16));
		cdr << v16;
		break;
	case 4:
		memcpy(&v32, value, sizeof(v32));
		cdr << v32;
		break;
	default: memcpy(&v64, value, sizeof(v64)); cdr << v64;
	}
}

const uint8_t *held(const apus_member *m, const uint8_t *object)
{
	const uint8_t *slot = object + m->offset_bytes, *value;

	if (!m->external || (m->type->kind == APUS_KIND_STRING && m->type->bound == 0))
		return slot;
	memcpy(&value, slot, sizeof(value));
	return value;
}

/* Writes a key. longest: the longest one there can be instead; returns false if there is none. */
bool put_key(Cdr &cdr, const apus_type *type, const uint8_t *value, bool top, bool longest)
{
	bool any = false, bounded = true;

	if (type->kind == APUS_KIND_STRING) {
		const char *chars = reinterpret_cast<const char *>(value);

		if (type->bound == 0 && !longest)
			memcpy(&chars, value, sizeof(chars));
		cdr << (longest ? std::string(type->bound, 'x') : std::string(chars ? chars : ""));
		return type->bound > 0;
	}
	if (type->kind == APUS_KIND_ARRAY) {
		for (uint32_t i = 0; i < type->bound; i++)
			put_scalar(cdr, type->element, value + i * type->element->size_bytes);
		return true;
	}
	if (type->kind != APUS_KIND_STRUCT) {
		put_scalar(cdr, type, value);
		return true;
	}
	for (uint32_t i = 0; i < type->member_count; i++)
		any |= type->members[i].key;
	for (uint32_t i = 0; i < type->member_count; i++) {
		const apus_member *m = &type->members[i];

		if (m->key || (!any && !top))
			bounded &= put_key(cdr, m->type, held(m, value), false, longest);
	}
	return bounded;
}

class ShapeType : public TopicDataType
{
      public:
	ShapeType(const apus_type *type, const void *example) : type_(type)
	{
		std::vector<char> space(room);
		FastBuffer buffer(space.data(), space.size());
		Cdr cdr(buffer, Cdr::BIG_ENDIANNESS);

		setName(type->name);
		m_typeSize = room;
		m_isGetKeyDefined = true;
		auto_fill_type_object(false);
		auto_fill_type_information(false);
		clear_ = put_key(cdr, type, static_cast<const uint8_t *>(example), true, true) &&
			 cdr.getSerializedDataLength() <= 16;
	}

	bool serialize(void *data, SerializedPayload_t *payload) override
	{
		int bytes = apus_type_encode(type_, data, APUS_XCDR1, false, payload->data,
					     payload->max_size);

		payload->encapsulation = CDR_LE;
		payload->length = bytes > 0 ? static_cast<uint32_t>(bytes) : 0;
		return bytes > 0;
	}

	bool deserialize(SerializedPayload_t *, void *) override
	{
		return false;
	}

	std::function<uint32_t()> getSerializedSizeProvider(void *) override
	{
		return [] { return static_cast<uint32_t>(room); };
	}

	void *createData() override
	{
		return calloc(1, room);
	}

	void deleteData(void *data) override
	{
		free(data);
	}

	bool getKey(void *data, InstanceHandle_t *handle, bool) override
	{
		std::vector<char> space(room);
		FastBuffer buffer(space.data(), space.size());
		Cdr cdr(buffer, Cdr::BIG_ENDIANNESS);
		size_t bytes;

		put_key(cdr, type_, static_cast<const uint8_t *>(data), true, false);
		bytes = cdr.getSerializedDataLength();
		if (clear_) {
			for (size_t i = 0; i < 16; i++)
				handle->value[i] = i < bytes ? static_cast<uint8_t>(space[i]) : 0;
			return true;
		}
		MD5 md5;
		md5.init();
		md5.update(space.data(), static_cast<unsigned int>(bytes));
		md5.finalize();
		for (size_t i = 0; i < 16; i++)
			handle->value[i] = md5.digest[i];
		return true;
	}

      private:
	const apus_type *type_;
	bool clear_;
};

template <typename T> T *must(T *made, const char *what)
{
	if (!made) {
		fprintf(stderr, "keys_fastdds: cannot create %s\n", what);
		exit(3);
	}
	return made;
}

DomainParticipant *join()
{
	auto transport = std::make_shared<eprosima::fastdds::rtps::UDPv4TransportDescriptor>();
	DomainParticipantQos qos;

	transport->interfaceWhiteList.push_back("127.0.0.1");
	qos.transport().use_builtin_transports = false;
	qos.transport().user_transports.push_back(transport);
	return must(DomainParticipantFactory::get_instance()->create_participant(0, qos),
		    "participant");
}

DataWriter *make_writer(DomainParticipant *participant, unsigned int i)
{
	TypeSupport type(new ShapeType(keys_live_type(i), keys_live_sample(i, 0)));
	DataWriterQos qos;

	type.register_type(participant);
	qos.reliability().kind = RELIABLE_RELIABILITY_QOS;
	qos.history().kind = KEEP_ALL_HISTORY_QOS;
	qos.durability().kind = VOLATILE_DURABILITY_QOS;
	qos.writer_data_lifecycle().autodispose_unregistered_instances = false;
	qos.reliable_writer_qos().times.heartbeatPeriod = Duration_t(0, 100000000);
	qos.data_sharing().off();
	return must(must(participant->create_publisher(PUBLISHER_QOS_DEFAULT), "publisher")
			    ->create_datawriter(must(participant->create_topic(keys_live_topic(i),
									       type.get_type_name(),
									       TOPIC_QOS_DEFAULT),
						     "topic"),
						qos),
		    "writer");
}

void await_match(DataWriter *writer)
{
	PublicationMatchedStatus status;

	for (int i = 0; i < 1000; i++) {
		writer->get_publication_matched_status(status);
		if (status.current_count > 0)
			return;
		std::this_thread::sleep_for(std::chrono::milliseconds(10));
	}
}

void write_all(DataWriter *writer, unsigned int i)
{
	void *samples[KEYS_LIVE_SAMPLES];
	InstanceHandle_t handles[KEYS_LIVE_SAMPLES];

	for (unsigned int n = 0; n < KEYS_LIVE_SAMPLES; n++) {
		samples[n] = const_cast<void *>(keys_live_sample(i, n));
		handles[n] = writer->register_instance(samples[n]);
		if (writer->write(samples[n], handles[n]) != ReturnCode_t::RETCODE_OK)
			fprintf(stderr, "%s: write failed\n", keys_live_topic(i));
	}
	if (writer->dispose(samples[1], handles[1]) != ReturnCode_t::RETCODE_OK ||
	    writer->unregister_instance(samples[2], handles[2]) != ReturnCode_t::RETCODE_OK)
		fprintf(stderr, "%s: dispose failed\n", keys_live_topic(i));
}
} // namespace

int main(int argc, char **argv)
{
	unsigned int count = keys_live_begin(argc > 1 ? argv[1][0] : 'f');
	DomainParticipant *participant = join();
	std::vector<DataWriter *> writers;
	int code;

	for (unsigned int i = 0; i < count; i++)
		writers.push_back(make_writer(participant, i));
	for (DataWriter *writer : writers)
		await_match(writer);
	std::this_thread::sleep_for(std::chrono::milliseconds(500));
	for (unsigned int i = 0; i < count; i++)
		write_all(writers[i], i);
	code = keys_live_finish();
	participant->delete_contained_entities();
	DomainParticipantFactory::get_instance()->delete_participant(participant);
	return code;
}

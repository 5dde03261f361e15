/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ShapeType for Fast DDS, by hand: Debian packages no generator. Serialised by Fast CDR as XCDR1
 * little-endian; the key hash is the MD5 of the big-endian key, since string<128> can exceed 16 bytes.
 */
#ifndef INTEROP_SHAPE_FASTDDS_H
#define INTEROP_SHAPE_FASTDDS_H

#include <cstdint>
#include <string>

#include <fastdds/dds/topic/TopicDataType.hpp>

struct Shape {
	std::string color;
	int32_t x = 0, y = 0, shapesize = 0;
};

class ShapeTypeSupport : public eprosima::fastdds::dds::TopicDataType
{
      public:
	ShapeTypeSupport();
	bool serialize(void *data, eprosima::fastrtps::rtps::SerializedPayload_t *payload) override;
	bool deserialize(eprosima::fastrtps::rtps::SerializedPayload_t *payload,
			 void *data) override;
	std::function<uint32_t()> getSerializedSizeProvider(void *data) override;
	void *createData() override;
	void deleteData(void *data) override;
	bool getKey(void *data, eprosima::fastrtps::rtps::InstanceHandle_t *handle,
		    bool force_md5) override;
};

/* Makes the type's members known inside this process, without which no SQL filter compiles. Nothing
 * of it is announced: Cyclone DDS 0.10 drops endpoints that carry this older form of type information. */
void register_shape_type_object();

#endif

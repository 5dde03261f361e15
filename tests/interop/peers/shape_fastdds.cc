/* SPDX-License-Identifier: Apache-2.0 */
/* ShapeType for Fast DDS. See shape_fastdds.h. */
#include "shape_fastdds.h"

#include <cstring>

#include <fastcdr/Cdr.h>
#include <fastcdr/FastBuffer.h>
#include <fastrtps/types/DynamicDataFactory.h>
#include <fastrtps/types/DynamicTypeBuilder.h>
#include <fastrtps/types/DynamicTypeBuilderFactory.h>
#include <fastrtps/types/DynamicTypeBuilderPtr.h>
#include <fastrtps/types/DynamicTypePtr.h>
#include <fastrtps/types/TypeObjectFactory.h>
#include <fastrtps/utils/md5.h>

using eprosima::fastcdr::Cdr;
using eprosima::fastcdr::FastBuffer;
using eprosima::fastrtps::rtps::InstanceHandle_t;
using eprosima::fastrtps::rtps::SerializedPayload_t;

/* Bound of the key, and the largest payload: header, length, 128 bytes and NUL, padding, three longs. */
static const uint32_t color_bound = 128;
static const uint32_t payload_max = 4 + 4 + (color_bound + 1) + 3 + 12;

ShapeTypeSupport::ShapeTypeSupport()
{
	setName("ShapeType");
	m_typeSize = payload_max;
	m_isGetKeyDefined = true;
	auto_fill_type_object(false);
	auto_fill_type_information(false);
}

bool ShapeTypeSupport::serialize(void *data, SerializedPayload_t *payload)
{
	Shape *shape = static_cast<Shape *>(data);
	FastBuffer buffer(reinterpret_cast<char *>(payload->data), payload->max_size);
	Cdr cdr(buffer, Cdr::LITTLE_ENDIANNESS, Cdr::DDS_CDR);

	try {
		payload->encapsulation = CDR_LE;
		cdr.serialize_encapsulation();
		cdr << shape->color << shape->x << shape->y << shape->shapesize;
	} catch (eprosima::fastcdr::exception::Exception &) {
		return false;
	}
	payload->length = static_cast<uint32_t>(cdr.getSerializedDataLength());
	return true;
}

bool ShapeTypeSupport::deserialize(SerializedPayload_t *payload, void *data)
{
	Shape *shape = static_cast<Shape *>(data);
	FastBuffer buffer(reinterpret_cast<char *>(payload->data), payload->length);
	Cdr cdr(buffer, Cdr::DEFAULT_ENDIAN, Cdr::DDS_CDR);

	try {
		cdr.read_encapsulation();
		cdr >> shape->color >> shape->x >> shape->y >> shape->shapesize;
	} catch (eprosima::fastcdr::exception::Exception &) {
		return false;
	}
	return true;
}

std::function<uint32_t()> ShapeTypeSupport::getSerializedSizeProvider(void *)
{
	return []() { return payload_max; };
}

void *ShapeTypeSupport::createData()
{
	return new Shape;
}

void ShapeTypeSupport::deleteData(void *data)
{
	delete static_cast<Shape *>(data);
}

bool ShapeTypeSupport::getKey(void *data, InstanceHandle_t *handle, bool)
{
	const std::string &color = static_cast<Shape *>(data)->color;
	uint32_t length = static_cast<uint32_t>(color.size()) + 1;
	unsigned char key[4 + color_bound + 1] = {
		static_cast<unsigned char>(length >> 24), static_cast<unsigned char>(length >> 16),
		static_cast<unsigned char>(length >> 8), static_cast<unsigned char>(length)};
	MD5 md5;

	if (length > color_bound + 1)
		return false;
	std::memcpy(key + 4, color.c_str(), length);
	md5.init();
	md5.update(key, 4 + length);
	md5.finalize();
	for (int i = 0; i < 16; i++)
		handle->value[i] = md5.digest[i];
	return true;
}

void register_shape_type_object()
{
	using namespace eprosima::fastrtps::types;
	DynamicTypeBuilderFactory *factory = DynamicTypeBuilderFactory::get_instance();
	DynamicTypeBuilder *builder = factory->create_struct_builder();
	DynamicType_ptr type;
	TypeObject object;

	builder->set_name("ShapeType");
	builder->add_member(0, "color", factory->create_string_type(color_bound));
	builder->add_member(1, "x", factory->create_int32_type());
	builder->add_member(2, "y", factory->create_int32_type());
	builder->add_member(3, "shapesize", factory->create_int32_type());
	type = builder->build();
	factory->build_type_object(type, object, true);
	factory->delete_builder(builder);
}

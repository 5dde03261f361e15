/* SPDX-License-Identifier: Apache-2.0 */
/* Fast DDS in the comparison of content filters: its DDSSQL. */
#include "filters.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <fastdds/dds/domain/DomainParticipant.hpp>
#include <fastdds/dds/domain/DomainParticipantFactory.hpp>
#include <fastdds/dds/publisher/DataWriter.hpp>
#include <fastdds/dds/publisher/Publisher.hpp>
#include <fastdds/dds/subscriber/DataReader.hpp>
#include <fastdds/dds/subscriber/DataReaderListener.hpp>
#include <fastdds/dds/subscriber/SampleInfo.hpp>
#include <fastdds/dds/subscriber/Subscriber.hpp>
#include <fastdds/dds/topic/ContentFilteredTopic.hpp>
#include <fastdds/dds/topic/TypeSupport.hpp>
#include <fastdds/rtps/transport/UDPv4TransportDescriptor.h>

#include "shape_fastdds.h"

using namespace eprosima::fastdds::dds;
using eprosima::fastrtps::types::ReturnCode_t;

namespace
{
DomainParticipant *participant;
Topic *topic[2];
ContentFilteredTopic *filtered;
DataWriter *writer[2];
DataReader *reader[2];
int current;
uint64_t seen;

struct Counter : DataReaderListener {
	void on_data_available(DataReader *) override
	{
		seen++;
	}
} counter;

template <typename T> T *must(T *made, const char *what)
{
	if (!made) {
		fprintf(stderr, "filters: Fast DDS: no %s\n", what);
		exit(3);
	}
	return made;
}

/* Parameters must be those the expression has. */
std::vector<std::string> parameters(int which, const char *value = "50")
{
	if (std::string(filters_expressions[which]).find("%0") == std::string::npos)
		return {};
	return {value};
}

void open_fastdds(uint32_t domain)
{
	DomainParticipantQos pqos;
	auto transport = std::make_shared<eprosima::fastdds::rtps::UDPv4TransportDescriptor>();
	TypeSupport type(new ShapeTypeSupport());

	transport->interfaceWhiteList.push_back("127.0.0.1");
	pqos.transport().use_builtin_transports = false;
	pqos.transport().user_transports.push_back(transport);
	participant =
		must(DomainParticipantFactory::get_instance()->create_participant(domain, pqos),
		     "participant");
	register_shape_type_object();
	type.register_type(participant);
	Publisher *publisher =
		must(participant->create_publisher(PUBLISHER_QOS_DEFAULT), "publisher");
	Subscriber *subscriber =
		must(participant->create_subscriber(SUBSCRIBER_QOS_DEFAULT), "subscriber");
	topic[0] = must(
		participant->create_topic("FiltersPlain", type.get_type_name(), TOPIC_QOS_DEFAULT),
		"topic");
	topic[1] =
		must(participant->create_topic("Filters", type.get_type_name(), TOPIC_QOS_DEFAULT),
		     "topic");
	filtered =
		must(participant->create_contentfilteredtopic(
			     "Filters_filtered", topic[1], filters_expressions[0], parameters(0)),
		     "filtered topic");
	for (int i = 0; i < 2; i++) {
		DataWriterQos wqos;
		DataReaderQos rqos;

		wqos.reliability().kind = BEST_EFFORT_RELIABILITY_QOS;
		wqos.data_sharing().off();
		rqos.data_sharing().off();
		rqos.reliability().kind = BEST_EFFORT_RELIABILITY_QOS;
		TopicDescription *described =
			i ? static_cast<TopicDescription *>(filtered) : topic[0];
		reader[i] =
			must(subscriber->create_datareader(described, rqos, i ? &counter : nullptr),
			     "reader");
		writer[i] = must(publisher->create_datawriter(topic[i], wqos), "writer");
	}
}

void set(int which)
{
	current = which;
	if (filtered->set_filter_expression(filters_expressions[which], parameters(which)) !=
	    ReturnCode_t::RETCODE_OK)
		must<void>(nullptr, "new filter");
}

void set_parameter(const char *value)
{
	if (filtered->set_expression_parameters(parameters(current, value)) !=
	    ReturnCode_t::RETCODE_OK)
		must<void>(nullptr, "new parameter");
}

void write_one(int which, int32_t x)
{
	static Shape shape{"RED", 0, 200, 30};

	shape.x = x;
	if (!writer[which]->write(&shape))
		must<void>(nullptr, "write");
}

uint64_t received()
{
	return seen;
}

void compile(int which)
{
	ContentFilteredTopic *made = must(participant->create_contentfilteredtopic(
						  "Filters_compiled", topic[1],
						  filters_expressions[which], parameters(which)),
					  "compiled filter");

	participant->delete_contentfilteredtopic(made);
}
} // namespace

extern const struct filters_peer filters_fastdds = {
	"Fast DDS", open_fastdds, set, write_one, received, compile, set_parameter};

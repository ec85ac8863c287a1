import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Producers by name: they stay open between calls, as transactions need it. */
final class Producers {
    private final Map<String, KafkaProducer<byte[], byte[]>> open = new HashMap<>();

    Producers(Map<String, Driver.Command> commands) {
        commands.put("producer", asked -> {
            open.put(asked.get("name").asText(), new KafkaProducer<>(
                Driver.settings(asked), new ByteArraySerializer(), new ByteArraySerializer()));
            return null;
        });
        commands.put("send", this::send);
        commands.put("init", asked -> { of(asked).initTransactions(); return null; });
        commands.put("begin", asked -> { of(asked).beginTransaction(); return null; });
        commands.put("commit", asked -> { of(asked).commitTransaction(); return null; });
        commands.put("abort", asked -> { of(asked).abortTransaction(); return null; });
        commands.put("send-offsets", this::sendOffsets);
        commands.put("close-producer", asked -> {
            open.remove(asked.get("name").asText()).close(
                Duration.ofMillis(asked.path("within_ms").asLong(30_000)));
            return null;
        });
    }

    private KafkaProducer<byte[], byte[]> of(JsonNode asked) {
        return open.get(asked.get("name").asText());
    }

    /** Sends all, then waits for all: [partition, offset, timestamp] of each. */
    private Object send(JsonNode asked) throws Exception {
        KafkaProducer<byte[], byte[]> producer = of(asked);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode record : asked.get("records"))
            sent.add(producer.send(record(asked.get("topic").asText(), record)));
        producer.flush();
        List<Object> places = new ArrayList<>();
        for (Future<RecordMetadata> each : sent) {
            RecordMetadata place = each.get();
            places.add(List.of(place.partition(), place.offset(), place.timestamp()));
        }
        return places;
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, JsonNode from)
            throws Exception {
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
            topic,
            from.has("partition") ? from.get("partition").asInt() : null,
            from.has("timestamp") ? from.get("timestamp").asLong() : null,
            Driver.bytes(from.get("key")),
            Driver.bytes(from.get("value")));
        for (JsonNode header : from.path("headers"))
            record.headers().add(header.get(0).asText(), Driver.bytes(header.get(1)));
        return record;
    }

    private Object sendOffsets(JsonNode asked) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (JsonNode each : asked.get("offsets"))
            offsets.put(
                new TopicPartition(each.get(0).asText(), each.get(1).asInt()),
                new OffsetAndMetadata(each.get(2).asLong()));
        of(asked).sendOffsetsToTransaction(
            offsets, new ConsumerGroupMetadata(asked.get("group").asText()));
        return null;
    }

    void close() {
        open.values().forEach(each -> each.close(Duration.ZERO));
    }
}

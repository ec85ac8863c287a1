import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Consumers by name, in groups or with partitions of their own. */
final class Consumers {
    private final Map<String, KafkaConsumer<byte[], byte[]>> open = new HashMap<>();
    private final Map<String, Integer> changes = new HashMap<>();

    Consumers(Map<String, Driver.Command> commands) {
        commands.put("consumer", asked -> {
            open.put(asked.get("name").asText(), new KafkaConsumer<>(
                Driver.settings(asked), new ByteArrayDeserializer(), new ByteArrayDeserializer()));
            return null;
        });
        commands.put("subscribe", this::subscribe);
        commands.put("assign", this::assign);
        commands.put("poll", asked -> {
            List<Object> found = new ArrayList<>();
            Duration patience = Duration.ofMillis(asked.path("ms").asLong(100));
            for (ConsumerRecord<byte[], byte[]> each : of(asked).poll(patience))
                found.add(record(each));
            return found;
        });
        commands.put("assignment", asked -> {
            List<Object> places = new ArrayList<>();
            for (TopicPartition each : of(asked).assignment())
                places.add(List.of(each.topic(), each.partition()));
            return places;
        });
        commands.put("changes", asked -> changes.getOrDefault(asked.get("name").asText(), 0));
        commands.put("commit-sync", asked -> { of(asked).commitSync(); return null; });
        commands.put("committed", this::committed);
        commands.put("offsets", this::offsets);
        commands.put("close-consumer", asked -> {
            open.remove(asked.get("name").asText()).close();
            return null;
        });
    }

    private KafkaConsumer<byte[], byte[]> of(JsonNode asked) {
        return open.get(asked.get("name").asText());
    }

    private Object subscribe(JsonNode asked) {
        String name = asked.get("name").asText();
        of(asked).subscribe(List.of(asked.get("topic").asText()), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> gone) {
                if (!gone.isEmpty()) changes.merge(name, 1, Integer::sum);
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> come) {
                if (!come.isEmpty()) changes.merge(name, 1, Integer::sum);
            }
        });
        return null;
    }

    private static List<TopicPartition> places(JsonNode asked) {
        List<TopicPartition> places = new ArrayList<>();
        for (JsonNode each : asked.get("partitions"))
            places.add(new TopicPartition(asked.get("topic").asText(), each.asInt()));
        return places;
    }

    /** From an offset, or from the beginning. */
    private Object assign(JsonNode asked) {
        List<TopicPartition> places = places(asked);
        of(asked).assign(places);
        for (TopicPartition each : places) of(asked).seek(each, asked.path("offset").asLong(0));
        return null;
    }

    private Object committed(JsonNode asked) {
        Map<String, Long> found = new LinkedHashMap<>();
        Map<TopicPartition, OffsetAndMetadata> all =
            of(asked).committed(new java.util.HashSet<>(places(asked)));
        all.forEach((place, one) ->
            found.put(String.valueOf(place.partition()), one == null ? null : one.offset()));
        return found;
    }

    /** Both ends, and where a time is: [beginning, end, by time or null]. */
    private Object offsets(JsonNode asked) {
        TopicPartition place = places(asked).get(0);
        var byTime = of(asked).offsetsForTimes(Map.of(place, asked.path("timestamp").asLong(0)));
        return Arrays.asList(
            of(asked).beginningOffsets(List.of(place)).get(place),
            of(asked).endOffsets(List.of(place)).get(place),
            byTime.get(place) == null ? null : byTime.get(place).offset());
    }

    private static Map<String, Object> record(ConsumerRecord<byte[], byte[]> one)
            throws Exception {
        List<Object> headers = new ArrayList<>();
        for (Header each : one.headers())
            headers.add(Arrays.asList(each.key(), Driver.text(each.value())));
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("partition", one.partition());
        told.put("offset", one.offset());
        told.put("timestamp", one.timestamp());
        told.put("key", Driver.text(one.key()));
        told.put("value", Driver.text(one.value()));
        told.put("headers", headers);
        return told;
    }

    void close() {
        open.values().forEach(KafkaConsumer::close);
    }
}

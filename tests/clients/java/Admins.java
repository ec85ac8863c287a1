import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** Kafka's Admin; a new one for each call. */
final class Admins {
    interface Deed {
        Object of(Admin admin, JsonNode asked) throws Exception;
    }

    Admins(Map<String, Driver.Command> commands) {
        Map<String, Deed> deeds = Map.of(
            "create-topic", Admins::create,
            "delete-topic", (admin, asked) ->
                admin.deleteTopics(List.of(asked.get("topic").asText())).all().get(),
            "describe-topic", Admins::describe,
            "add-partitions", (admin, asked) ->
                admin.createPartitions(Map.of(
                    asked.get("topic").asText(),
                    NewPartitions.increaseTo(asked.get("partitions").asInt()))).all().get(),
            "list-topics", (admin, asked) -> admin.listTopics().names().get(),
            "set-config", Admins::setConfig,
            "configs", Admins::configs,
            "delete-records", (admin, asked) ->
                admin.deleteRecords(Map.of(
                    new TopicPartition(asked.get("topic").asText(), 0),
                    RecordsToDelete.beforeOffset(asked.get("before").asLong()))).all().get(),
            "cluster", (admin, asked) -> {
                Collection<Object> nodes = new ArrayList<>();
                admin.describeCluster().nodes().get()
                    .forEach(node -> nodes.add(List.of(node.id(), node.host() + ":" + node.port())));
                return nodes;
            },
            "describe-group", Admins::describeGroup);
        deeds.forEach((name, deed) -> commands.put(name, asked -> {
            try (Admin admin = Admin.create(Driver.settings(asked))) {
                return deed.of(admin, asked);
            }
        }));
    }

    private static Object create(Admin admin, JsonNode asked) throws Exception {
        Map<String, String> configs = new HashMap<>();
        asked.path("configs").fields().forEachRemaining(
            each -> configs.put(each.getKey(), each.getValue().asText()));
        NewTopic topic =
            new NewTopic(asked.get("topic").asText(), asked.get("partitions").asInt(), (short) 1);
        return admin.createTopics(List.of(topic.configs(configs))).all().get();
    }

    private static Object describe(Admin admin, JsonNode asked) throws Exception {
        String name = asked.get("topic").asText();
        TopicDescription found = admin.describeTopics(List.of(name)).allTopicNames().get().get(name);
        return Map.of("id", found.topicId().toString(), "partitions", found.partitions().size());
    }

    private static ConfigResource resource(JsonNode asked) {
        return new ConfigResource(ConfigResource.Type.TOPIC, asked.get("topic").asText());
    }

    private static Object setConfig(Admin admin, JsonNode asked) throws Exception {
        ConfigEntry entry = new ConfigEntry(asked.get("key").asText(), asked.get("value").asText());
        AlterConfigOp op = new AlterConfigOp(entry, AlterConfigOp.OpType.SET);
        return admin.incrementalAlterConfigs(Map.of(resource(asked), List.of(op))).all().get();
    }

    private static Object configs(Admin admin, JsonNode asked) throws Exception {
        Map<String, String> found = new LinkedHashMap<>();
        ConfigResource resource = resource(asked);
        admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()
            .forEach(each -> found.put(each.name(), each.value()));
        return found;
    }

    private static Object describeGroup(Admin admin, JsonNode asked) throws Exception {
        String group = asked.get("group").asText();
        var found = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        return Map.of(
            "state", found.groupState().toString(),
            "type", found.type().toString(),
            "members", found.members().size());
    }
}

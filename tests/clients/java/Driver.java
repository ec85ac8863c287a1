import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;

/** Reads one JSON object per line, does what it says with Kafka's own client, writes one back. */
public final class Driver {
    interface Command {
        Object run(JsonNode arguments) throws Exception;
    }

    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] none) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // what the client prints is no answer
        Map<String, Command> commands = new HashMap<>();
        Producers producers = new Producers(commands);
        Consumers consumers = new Consumers(commands);
        new Admins(commands);
        new Tools(commands);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(JSON.writeValueAsString(answer(commands, JSON.readTree(line))));
            answers.flush();
        }
        producers.close();
        consumers.close();
        System.exit(0);
    }

    private static Map<String, Object> answer(Map<String, Command> commands, JsonNode asked) {
        Map<String, Object> answer = new LinkedHashMap<>();
        try {
            Command command = commands.get(asked.get("do").asText());
            answer.put("result", command.run(asked));
        } catch (Throwable raised) {
            Throwable cause = raised instanceof ExecutionException ? raised.getCause() : raised;
            cause.printStackTrace();
            answer.put("error", cause.getClass().getSimpleName());
            answer.put("message", String.valueOf(cause.getMessage()));
        }
        return answer;
    }

    /** The client's settings: those of the caller over ours. */
    static Properties settings(JsonNode asked, String... ours) {
        Properties settings = new Properties();
        for (int at = 0; at < ours.length; at += 2) settings.put(ours[at], ours[at + 1]);
        asked.path("config").fields().forEachRemaining(
            each -> settings.put(each.getKey(), each.getValue().asText()));
        return settings;
    }

    static byte[] bytes(JsonNode text) throws Exception {
        return text == null || text.isNull() ? null : text.asText().getBytes("ISO-8859-1");
    }

    static String text(byte[] bytes) throws Exception {
        return bytes == null ? null : new String(bytes, "ISO-8859-1");
    }
}

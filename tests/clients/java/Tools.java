import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

/** Kafka's command-line tools, by the main class that its shell scripts start. */
final class Tools {
    private static final class Ended extends RuntimeException { }

    private final List<Runnable> hooks = new ArrayList<>();
    private Integer status;

    /** The process outlives the tool: its end is an exception, and what it leaves to the end is done. */
    Tools(Map<String, Driver.Command> commands) {
        Exit.Procedure end = (code, message) -> {
            if (status == null) status = code; // some catch the exception, and exit once more
            throw new Ended();
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        commands.put("tool", this::run);
    }

    /** What it printed to both streams, and its exit status. */
    private Object run(JsonNode asked) throws Exception {
        List<String> words = new ArrayList<>();
        asked.get("args").forEach(each -> words.add(each.asText()));
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream out = System.out;
        PrintStream err = System.err;
        InputStream in = System.in;
        try (PrintStream paper = new PrintStream(printed, true, "UTF-8")) {
            System.setOut(paper);
            System.setErr(paper);
            System.setIn(new ByteArrayInputStream(asked.path("stdin").asText().getBytes("UTF-8")));
            status = null;
            main(asked.get("main").asText(), words.toArray(new String[0]));
            hooks.forEach(Runnable::run);
            return Map.of("status", status, "printed", printed.toString("UTF-8"));
        } finally {
            hooks.clear();
            System.setOut(out);
            System.setErr(err);
            System.setIn(in);
        }
    }

    private void main(String name, String[] words) throws Exception {
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) words);
            if (status == null) status = 0;
        } catch (InvocationTargetException raised) {
            if (status == null) throw raised;
        }
    }
}

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
    private static final class Ended extends RuntimeException {
        final int status;

        Ended(int status) {
            this.status = status;
        }
    }

    Tools(Map<String, Driver.Command> commands) {
        Exit.Procedure end = (status, message) -> { throw new Ended(status); };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        Exit.setShutdownHookAdder((name, hook) -> { }); // the process outlives the tool
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
            int status = main(asked.get("main").asText(), words.toArray(new String[0]));
            return Map.of("status", status, "printed", printed.toString("UTF-8"));
        } finally {
            System.setOut(out);
            System.setErr(err);
            System.setIn(in);
        }
    }

    private static int main(String name, String[] words) throws Exception {
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) words);
            return 0;
        } catch (InvocationTargetException raised) {
            for (Throwable each = raised; each != null; each = each.getCause())
                if (each instanceof Ended) return ((Ended) each).status;
            throw raised;
        }
    }
}

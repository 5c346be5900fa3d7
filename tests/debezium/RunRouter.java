import com.fasterxml.jackson.databind.ObjectMapper;
import io.debezium.embedded.Connect;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.DebeziumEngine.RecordCommitter;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.common.config.ConfigTransformer;
import org.apache.kafka.common.config.provider.EnvVarConfigProvider;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.runtime.SourceConnectorConfig;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;

/**
 * Runs a connector as Kafka Connect would, without Kafka: {@code RunRouter CONNECTOR_JSON OFFSETS_FILE [KEY=VALUE]...}.
 *
 * <p>Each record that Kafka would get is a line of JSON on stdout: topic, key, value, and headers as a list of pairs.
 * Further arguments override keys of the configuration. A line of input stops the connector in order,
 * which an empty line on stdout confirms, and another one starts it again. It ends with its input.
 */
public final class RunRouter {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUTPUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private final Converter key;
    private final Converter value;
    private final HeaderConverter header;

    private RunRouter(Map<String, String> config) throws ReflectiveOperationException {
        key = instance(config.get("key.converter"));
        key.configure(below("key.converter.", config), true);
        value = instance(config.get("value.converter"));
        value.configure(below("value.converter.", config), false);
        header = instance(config.get("header.converter"));
        Map<String, String> headerConfig = below("header.converter.", config);
        headerConfig.put("converter.type", "header");
        header.configure(headerConfig);
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> config = configuration(Path.of(arguments[0]));
        refuseUnknownKeys(config);
        for (String override : Arrays.asList(arguments).subList(2, arguments.length)) {
            config.put(override.substring(0, override.indexOf('=')), override.substring(override.indexOf('=') + 1));
        }
        RunRouter router = new RunRouter(config);
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        boolean isAskedToStop;
        do {
            var engine = router.engine(config, arguments[1]);
            Thread thread = new Thread(engine);
            thread.start();
            isAskedToStop = input.readLine() != null;
            engine.close();
            thread.join();
            OUTPUT.println();
        } while (isAskedToStop && input.readLine() != null);
    }

    /** The file's, with its placeholders replaced by the worker's provider of environment variables. */
    private static Map<String, String> configuration(Path file) throws Exception {
        Map<String, String> config = new HashMap<>();
        JSON.readTree(file.toFile()).get("config").properties()
                .forEach(entry -> config.put(entry.getKey(), entry.getValue().textValue()));
        try (EnvVarConfigProvider environment = new EnvVarConfigProvider()) {
            environment.configure(Map.of());
            return new HashMap<>(new ConfigTransformer(Map.of("env", environment)).transform(config).data());
        }
    }

    /** Kafka Connect itself ignores what nobody knows, a misspelt key among them. */
    private static void refuseUnknownKeys(Map<String, String> config) throws ReflectiveOperationException {
        Set<String> unknown = new TreeSet<>(config.keySet());
        unknown.removeAll(SourceConnectorConfig.configDef().names());
        unknown.removeAll(RunRouter.<Connector>instance(config.get("connector.class")).config().names());
        unknown.remove("snapshot.select.statement.overrides." + config.get("snapshot.select.statement.overrides"));
        for (String name : config.get("transforms").split(",")) {
            String prefix = "transforms." + name + ".";
            unknown.remove(prefix + "type");
            RunRouter.<Transformation<?>>instance(config.get(prefix + "type")).config().names()
                    .forEach(known -> unknown.remove(prefix + known));
        }
        if (!unknown.isEmpty()) {
            throw new IllegalArgumentException("nobody knows these keys: " + unknown);
        }
    }

    private DebeziumEngine<ChangeEvent<SourceRecord, SourceRecord>> engine(
            Map<String, String> config, String offsetsFile) {
        Properties properties = new Properties();
        properties.putAll(config);
        properties.put("name", "outbox");
        properties.put("offset.storage", "org.apache.kafka.connect.storage.FileOffsetBackingStore");
        properties.put("offset.storage.file.filename", offsetsFile);
        properties.put("offset.flush.interval.ms", "0");
        return DebeziumEngine.create(Connect.class)
                .using(properties)
                .notifying(this::deliver)
                .using((success, message, error) -> {
                    if (!success) {
                        System.err.println(message);
                        System.exit(1);
                    }
                })
                .build();
    }

    private void deliver(
            List<ChangeEvent<SourceRecord, SourceRecord>> events,
            RecordCommitter<ChangeEvent<SourceRecord, SourceRecord>> committer)
            throws InterruptedException {
        for (ChangeEvent<SourceRecord, SourceRecord> event : events) {
            OUTPUT.println(line(event.value()));
            committer.markProcessed(event);
        }
        committer.markBatchFinished();
    }

    /** Converted in the order of Kafka Connect: headers, key, value. */
    private String line(SourceRecord record) {
        String topic = record.topic();
        RecordHeaders headers = new RecordHeaders();
        for (Header one : record.headers()) {
            headers.add(one.key(), header.fromConnectHeader(topic, one.key(), one.schema(), one.value()));
        }
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("topic", topic);
        line.put("key", text(key.fromConnectData(topic, headers, record.keySchema(), record.key())));
        line.put("value", text(value.fromConnectData(topic, headers, record.valueSchema(), record.value())));
        line.put("headers", Arrays.stream(headers.toArray())
                .map(one -> Arrays.asList(one.key(), text(one.value())))
                .toList());
        return JSON.valueToTree(line).toString();
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    private static Map<String, String> below(String prefix, Map<String, String> config) {
        Map<String, String> found = new HashMap<>();
        config.forEach((name, setting) -> {
            if (name.startsWith(prefix)) {
                found.put(name.substring(prefix.length()), setting);
            }
        });
        return found;
    }

    @SuppressWarnings("unchecked")
    private static <T> T instance(String type) throws ReflectiveOperationException {
        return (T) Class.forName(type).getDeclaredConstructor().newInstance();
    }
}

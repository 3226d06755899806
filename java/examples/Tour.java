import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.terrace.*;

/** What one does with Terrace, in a minute. */
public class Tour {
    static byte[] b(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String s(byte[] bytes) {
        return bytes == null ? "nothing" : new String(bytes, StandardCharsets.UTF_8);
    }

    public static void main(String[] args) {
        try (Database db = Terrace.open(Path.of(args[0]), Options.memory("64MiB"))) {
            Tree users = db.tree("users");
            users.put(b("alice"), b("Berlin"));
            users.put(b("bob"), b("Paris"), Durability.SYNC);
            System.out.println("alice lives in " + s(users.get(b("alice"))));
            System.out.println("of three there are " + users.getAll(List.of(b("alice"), b("bob"), b("carol"))).stream().filter(v -> v != null).count());

            try (WriteBatch batch = db.batch()) {
                batch.put(users, b("carol"), b("Rome")).delete(users, b("bob"));
                db.write(batch, Durability.SYNC);
            }
            try (Cursor cursor = users.range(b("a"), b("d"))) {
                while (cursor.next()) {
                    System.out.println(s(cursor.key()) + ": " + s(cursor.value()));
                }
            }

            Hash counts = db.hash("counts");
            counts.merge(b("visits"), Merge.add(3));
            System.out.println("visits: " + Numbers.decode(counts.get(b("visits"))));

            String moved = db.transaction(t -> {
                byte[] city = t.get(users, b("alice"));
                t.put(users, b("alice"), b("Oslo"));
                return s(city);
            });
            System.out.println("alice has left " + moved + " for " + s(users.asMap().firstEntry().getValue()));

            Table people = db.table("people", Map.of("city", "json:/city"));
            people.put(b("1"), b("{\"name\": \"Dora\", \"city\": \"Rome\"}"));
            try (Cursor rows = people.index("city").get(b("Rome"))) {
                while (rows.next()) {
                    System.out.println("in Rome: " + s(rows.value()));
                }
            }
            try (Snapshot snapshot = db.snapshot()) {
                users.delete(b("alice"));
                System.out.println("alice was in " + s(snapshot.structure("users").get(b("alice"))) + ", and is in " + s(users.get(b("alice"))));
            }
        }
    }
}

package org.terrace;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

/** The JVM that looks at every call over the border finds nothing wrong. */
class StrictJniTest {
    /** Does what other tests do. */
    public static void main(String[] arguments) throws Exception {
        for (Class<?> tests : new Class<?>[] {StructuresTest.class, MisuseTest.class}) {
            for (Method test : tests.getDeclaredMethods()) {
                if (test.isAnnotationPresent(Test.class)) {
                    var constructor = tests.getDeclaredConstructor();
                    constructor.setAccessible(true);
                    Object made = constructor.newInstance();
                    test.setAccessible(true);
                    test.invoke(made);
                    Method end = tests.getDeclaredMethod("end");
                    end.setAccessible(true);
                    end.invoke(made);
                }
            }
        }
        System.out.println("all done");
    }

    @Test
    void theJvmFindsNothingWrong() throws Exception {
        Process process = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Xmx256m",
            "-Xcheck:jni", "-cp", System.getProperty("java.class.path"), StrictJniTest.class.getName()).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertTrue(process.waitFor() == 0 && said.contains("all done"), said);
        assertFalse(said.contains("WARNING in native") || said.contains("FATAL"), said);
    }
}

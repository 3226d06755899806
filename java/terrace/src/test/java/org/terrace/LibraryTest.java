package org.terrace;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;

/** How the native library is found, and what is said where it is not. Each case is a JVM of its own. */
class LibraryTest {
    /** Opens a database, or says why not. */
    public static void main(String[] arguments) throws Exception {
        try {
            if (arguments[0].equals("two")) {
                List<URL> urls = new ArrayList<>();
                for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
                    urls.add(Path.of(path).toUri().toURL());
                }
                for (int i = 0; i < 2; i++) {
                    ClassLoader loader = new URLClassLoader(urls.toArray(new URL[0]), ClassLoader.getPlatformClassLoader());
                    Class.forName("org.terrace.Native", true, loader);
                }
            } else {
                Terrace.open(Path.of(arguments[0])).close();
            }
            System.out.println("opened");
        } catch (Throwable e) {
            for (Throwable cause = e; cause != null; cause = cause.getCause()) {
                System.out.println(cause);
            }
        }
    }

    private static String run(String argument, String... options) throws Exception {
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Xmx64m"));
        command.addAll(List.of(options));
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), LibraryTest.class.getName(), argument));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        process.waitFor();
        return said;
    }

    @Test
    void itIsExtractedOnceAndMended() throws Exception {
        try (Folder folder = new Folder()) {
            Path natives = folder.path.resolve("natives");
            String option = "-D" + Library.FOLDER + "=" + natives;
            assertTrue(run(folder.db().toString(), option).contains("opened"));
            Path file;
            try (var files = Files.list(natives)) {
                List<Path> all = files.collect(java.util.stream.Collectors.toList());
                assertEquals(1, all.size());
                file = all.get(0);
            }
            Files.write(file, new byte[100]);
            assertTrue(run(folder.db().toString(), option).contains("opened"));
            assertTrue(Files.size(file) > 100);
            // By its own name, as a file and as a folder.
            Path named = folder.path.resolve("libterrace_jni.so");
            Files.copy(file, named);
            assertTrue(run(folder.db().toString(), "-D" + Library.PATH + "=" + named).contains("opened"));
            assertTrue(run(folder.db().toString(), "-D" + Library.PATH + "=" + folder.path).contains("opened"));
        }
    }

    @Test
    void whereThereIsNoneThatIsSaid() throws Exception {
        try (Folder folder = new Folder()) {
            String none = run(folder.db().toString(), "-Dos.arch=vax");
            assertTrue(none.contains("no native library for linux on vax"), none);
            Path wrong = Files.write(folder.path.resolve("x.so"), new byte[100]);
            String broken = run(folder.db().toString(), "-D" + Library.PATH + "=" + wrong);
            assertTrue(broken.contains("could not be loaded"), broken);
            Path file = Files.write(folder.path.resolve("file"), new byte[1]);
            String folderless = run(folder.db().toString(), "-D" + Library.FOLDER + "=" + file);
            assertTrue(folderless.contains("name another folder"), folderless);
        }
    }

    @Test
    void twoClassLoadersAreTold() throws Exception {
        String said = run("two");
        assertTrue(said.contains("another class loader"), said);
    }

    @Test
    void aFolderMountedNoexecIsNamed() throws Exception {
        try (Folder folder = new Folder()) {
            Process mount = new ProcessBuilder("mount", "-t", "tmpfs", "-o", "noexec,size=64m", "tmpfs", folder.path.toString())
                .redirectErrorStream(true).start();
            mount.getInputStream().readAllBytes();
            Assumptions.assumeTrue(mount.waitFor() == 0, "nothing can be mounted here");
            try {
                String said = run("/nowhere", "-D" + Library.FOLDER + "=" + folder.path.resolve("n"));
                assertTrue(said.contains("noexec"), said);
            } finally {
                new ProcessBuilder("umount", folder.path.toString()).start().waitFor();
            }
        }
    }

    @Test
    void aJvmThatIsStrictIsNamedItsFlag() throws Exception {
        Assumptions.assumeTrue(Runtime.version().feature() >= 24, "JVMs before 24 deny nothing");
        String said = run("/nowhere", "--illegal-native-access=deny");
        assertTrue(said.contains("--enable-native-access"), said);
    }
}

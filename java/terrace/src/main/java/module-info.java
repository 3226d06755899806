/** Terrace: an embedded, durable key-value engine. Begin with {@link org.terrace.Terrace#open}. */
module org.terrace {
    exports org.terrace;
}

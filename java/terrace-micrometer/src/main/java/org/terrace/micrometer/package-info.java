/** The figures of a database as meters of Micrometer: {@code new TerraceMetrics(db).bindTo(registry)}. */
package org.terrace.micrometer;

import org.apache.spark.sql.SparkSession;

/** Asks queries of the tables in a catalog of SQLite: a line of JSON for each row of the answers. */
public class Query {
    public static void main(String[] args) {
        String catalog = "spark.sql.catalog.stratamq";
        SparkSession spark =
                SparkSession.builder()
                        .master("local[2]")
                        .config("spark.ui.enabled", "false")
                        .config("spark.driver.host", "127.0.0.1")
                        .config("spark.driver.bindAddress", "127.0.0.1")
                        .config("spark.sql.shuffle.partitions", "2")
                        .config(catalog, "org.apache.iceberg.spark.SparkCatalog")
                        .config(catalog + ".type", "jdbc")
                        .config(catalog + ".uri", "jdbc:sqlite:" + args[0])
                        .config(catalog + ".jdbc.schema-version", "V1")
                        .config(catalog + ".warehouse", args[1])
                        .getOrCreate();
        for (int at = 2; at < args.length; at++) {
            for (String row : spark.sql(args[at]).toJSON().collectAsList()) {
                System.out.println(row);
            }
        }
        spark.stop();
    }
}

// Apache Iceberg's own REST catalog, as its tests run it, on loopback: port, folder.

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

public class Catalog {
    public static void main(String[] given) throws Exception {
        var properties = Map.of(
            "catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri", "jdbc:sqlite:" + given[1] + "/catalog.sqlite",
            "jdbc.schema-version", "V1",
            "warehouse", "file://" + given[1]);
        var catalog = CatalogUtil.buildIcebergCatalog("peer", properties, new Configuration());
        var context = new ServletContextHandler();
        var servlet = new RESTCatalogServlet(new RESTCatalogAdapter(catalog));
        context.addServlet(new ServletHolder(servlet), "/*");
        var loopback = InetAddress.getByName("127.0.0.1");
        var server = new Server(new InetSocketAddress(loopback, Integer.parseInt(given[0])));
        server.setHandler(context);
        server.start();
        System.out.println("ready");
        server.join();
    }
}

// Asks the filter of docs/redis.md six times, as a container of servlets does.

import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;

public class Main {
    private static String said;
    private static int after;

    public static void main(String[] words) {
        FrsFilter filter = new FrsFilter();
        ServletRequest request = made(ServletRequest.class, (proxy, method, values) -> "192.0.2.1");
        HttpServletResponse response = made(HttpServletResponse.class, (proxy, method, values) -> {
            if (method.getName().equals("setHeader")) {
                after = Integer.parseInt((String) values[1]);
            } else {
                said = values[0] + (after >= 1 && after <= 60 ? "" : " " + after);
            }
            return null;
        });
        FilterChain chain = (asked, answered) -> said = "200";
        for (int nth = 0; nth < 6; nth++) {
            try {
                filter.doFilter(request, response, chain);
            } catch (IOException | jakarta.servlet.ServletException error) {
                said = "500";
                System.err.println(error);
            }
            System.out.println(said);
        }
    }

    private static <T> T made(Class<T> type, InvocationHandler handler) {
        Class<?>[] types = {type};
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), types, handler));
    }
}

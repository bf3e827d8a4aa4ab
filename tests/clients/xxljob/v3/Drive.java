// As v2/Drive.java, with the client of XXL-JOB 3.3: Drive URL TOKEN, then a question a line on stdin, fields
// parted by tabs; an answer a line on stdout: code, message, what else.
import com.xxl.job.core.openapi.ExecutorBiz;
import com.xxl.job.core.openapi.model.IdleBeatRequest;
import com.xxl.job.core.openapi.model.KillRequest;
import com.xxl.job.core.openapi.model.LogRequest;
import com.xxl.job.core.openapi.model.LogResult;
import com.xxl.job.core.openapi.model.TriggerRequest;
import com.xxl.tool.http.HttpTool;
import com.xxl.tool.response.Response;
import java.io.BufferedReader;
import java.io.InputStreamReader;

public class Drive {
  static Response<?> ask(ExecutorBiz client, String[] words) {
    switch (words[0]) {
      case "beat":
        return client.beat();
      case "idleBeat":
        return client.idleBeat(new IdleBeatRequest(Integer.parseInt(words[1])));
      case "kill":
        return client.kill(new KillRequest(Integer.parseInt(words[1])));
      case "log":
        return client.log(
            new LogRequest(Long.parseLong(words[1]), Long.parseLong(words[2]), Integer.parseInt(words[3])));
      default:
        TriggerRequest trigger = new TriggerRequest();
        trigger.setJobId(Integer.parseInt(words[1]));
        trigger.setLogId(Long.parseLong(words[2]));
        trigger.setLogDateTime(Long.parseLong(words[3]));
        trigger.setExecutorHandler(words[4]);
        trigger.setExecutorParams(words[5]);
        trigger.setExecutorBlockStrategy(words[6]);
        trigger.setGlueType(words[7]);
        trigger.setBroadcastTotal(1);
        return client.run(trigger);
    }
  }

  public static void main(String[] arguments) throws Exception {
    ExecutorBiz client = HttpTool.createClient()
        .url(arguments[0])
        .timeout(3000)
        .header("XXL-JOB-ACCESS-TOKEN", arguments[1])
        .proxy(ExecutorBiz.class);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      Response<?> answer = ask(client, line.split("\t", -1));
      String more = "";
      if (answer.getData() instanceof LogResult log) {
        more = log.getFromLineNum() + "\t" + log.getToLineNum() + "\t" + log.isEnd() + "\t"
            + log.getLogContent().replace("\n", "|");
      }
      System.out.println(answer.getCode() + "\t" + answer.getMsg() + "\t" + more);
      System.out.flush();
    }
  }
}

// Asks an executor as XXL-JOB's admin does, by its own client: Drive URL TOKEN, then a question a line on stdin, fields
// parted by tabs; an answer a line on stdout: code, message, what else.
import com.xxl.job.core.biz.client.ExecutorBizClient;
import com.xxl.job.core.biz.model.IdleBeatParam;
import com.xxl.job.core.biz.model.KillParam;
import com.xxl.job.core.biz.model.LogParam;
import com.xxl.job.core.biz.model.LogResult;
import com.xxl.job.core.biz.model.ReturnT;
import com.xxl.job.core.biz.model.TriggerParam;
import java.io.BufferedReader;
import java.io.InputStreamReader;

public class Drive {
  static ReturnT<?> ask(ExecutorBizClient client, String[] words) {
    switch (words[0]) {
      case "beat":
        return client.beat();
      case "idleBeat":
        return client.idleBeat(new IdleBeatParam(Integer.parseInt(words[1])));
      case "kill":
        return client.kill(new KillParam(Integer.parseInt(words[1])));
      case "log":
        return client.log(
            new LogParam(Long.parseLong(words[1]), Long.parseLong(words[2]), Integer.parseInt(words[3])));
      default:
        TriggerParam trigger = new TriggerParam();
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
    ExecutorBizClient client = new ExecutorBizClient(arguments[0], arguments[1]);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      ReturnT<?> answer = ask(client, line.split("\t", -1));
      String more = "";
      if (answer.getContent() instanceof LogResult log) {
        more = log.getFromLineNum() + "\t" + log.getToLineNum() + "\t" + log.isEnd() + "\t"
            + log.getLogContent().replace("\n", "|");
      }
      System.out.println(answer.getCode() + "\t" + answer.getMsg() + "\t" + more);
      System.out.flush();
    }
  }
}

# docker build -t quern . && docker run -p 9997:9997 -v quern:/var/lib/quern quern serve smollm2 --host 0.0.0.0
FROM debian:12 AS build
WORKDIR /src
COPY . .
RUN ./dev build

FROM debian:12-slim
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends \
      ca-certificates libcurl4 libssl3 libzip4 libhwy1 libfmt9 libspdlog1.10 libsqlite3-0 libyaml-cpp0.7 libxxhash0 libedit2 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/build/release/quern /usr/local/bin/quern
ENV QUERN_HOME=/var/lib/quern
VOLUME /var/lib/quern
EXPOSE 9997
ENTRYPOINT ["quern"]
CMD ["serve", "smollm2", "--host", "0.0.0.0"]

#include "models/encoders/encoder_names.h"

namespace quern {
namespace {

EncoderNames bert_names() {
  EncoderNames names;
  names.common.prefixes = {"bert.", "roberta.", ""};
  names.common.embed = "embeddings.word_embeddings";
  // The heads of pre-training, the unused pooler of an embedding model, and a table of counted positions.
  names.common.ignored = {"cls.*", "lm_head.*", "*pooler.dense.*", "*embeddings.position_ids"};
  names.positions = "embeddings.position_embeddings";
  names.types = "embeddings.token_type_embeddings";
  names.embed_norm = "embeddings.LayerNorm";
  names.query = "encoder.layer.{}.attention.self.query";
  names.key = "encoder.layer.{}.attention.self.key";
  names.value = "encoder.layer.{}.attention.self.value";
  names.attention_output = "encoder.layer.{}.attention.output.dense";
  names.attention_norm = "encoder.layer.{}.attention.output.LayerNorm";
  names.up = "encoder.layer.{}.intermediate.dense";
  names.down = "encoder.layer.{}.output.dense";
  names.mlp_norm = "encoder.layer.{}.output.LayerNorm";
  names.head_dense = "pooler.dense";
  names.head_out = "/classifier";
  return names;
}

EncoderNames roberta_names() {
  EncoderNames names = bert_names();
  names.head_dense = "/classifier.dense";
  names.head_out = "/classifier.out_proj";
  return names;
}

EncoderNames distilbert_names() {
  EncoderNames names;
  names.common.prefixes = {"distilbert.", ""};
  names.common.embed = "embeddings.word_embeddings";
  names.common.ignored = {"vocab_*"};
  names.positions = "embeddings.position_embeddings";
  names.embed_norm = "embeddings.LayerNorm";
  names.query = "transformer.layer.{}.attention.q_lin";
  names.key = "transformer.layer.{}.attention.k_lin";
  names.value = "transformer.layer.{}.attention.v_lin";
  names.attention_output = "transformer.layer.{}.attention.out_lin";
  names.attention_norm = "transformer.layer.{}.sa_layer_norm";
  names.up = "transformer.layer.{}.ffn.lin1";
  names.down = "transformer.layer.{}.ffn.lin2";
  names.mlp_norm = "transformer.layer.{}.output_layer_norm";
  names.head_dense = "/pre_classifier";
  names.head_out = "/classifier";
  return names;
}

EncoderNames nomic_names() {
  EncoderNames names;
  names.common.prefixes = {"bert.", "nomic_bert.", ""};
  names.common.embed = "embeddings.word_embeddings";
  names.common.ignored = {"cls.*", "*pooler.dense.*"};
  names.types = "embeddings.token_type_embeddings";
  names.embed_norm = "emb_ln";
  names.qkv = "encoder.layers.{}.attn.Wqkv";
  names.attention_output = "encoder.layers.{}.attn.out_proj";
  names.attention_norm = "encoder.layers.{}.norm1";
  names.up = "encoder.layers.{}.mlp.fc11";
  names.gate = "encoder.layers.{}.mlp.fc12";
  names.down = "encoder.layers.{}.mlp.fc2";
  names.mlp_norm = "encoder.layers.{}.norm2";
  names.head_dense = "pooler.dense";
  names.head_out = "/classifier";
  return names;
}

EncoderNames modernbert_names() {
  EncoderNames names;
  names.common.prefixes = {"model.", ""};
  names.common.embed = "embeddings.tok_embeddings";
  // Of masked-language models: a head that shares its names with the classifier's, and the output projection.
  names.common.ignored = {"decoder.*", "head.*"};
  names.embed_norm = "embeddings.norm";
  names.qkv = "layers.{}.attn.Wqkv";
  names.attention_output = "layers.{}.attn.Wo";
  names.attention_norm = "layers.{}.attn_norm";
  names.gate_up = "layers.{}.mlp.Wi";
  names.down = "layers.{}.mlp.Wo";
  names.mlp_norm = "layers.{}.mlp_norm";
  names.final_norm = "final_norm";
  names.head_dense = "/head.dense";
  names.head_norm = "/head.norm";
  names.head_out = "/classifier";
  return names;
}

EncoderNames gguf_names(bool pre_norm) {
  EncoderNames names;
  names.common.prefixes = {""};
  names.common.embed = "token_embd";
  names.common.ignored = {};
  names.positions = "position_embd";
  names.types = "token_types";
  names.embed_norm = "token_embd_norm";
  names.query = "blk.{}.attn_q";
  names.key = "blk.{}.attn_k";
  names.value = "blk.{}.attn_v";
  names.qkv = "blk.{}.attn_qkv";
  names.attention_output = "blk.{}.attn_output";
  names.attention_norm = pre_norm ? "blk.{}.attn_norm" : "blk.{}.attn_output_norm";
  names.up = "blk.{}.ffn_up";
  names.gate = "blk.{}.ffn_gate";
  names.gate_up = "blk.{}.ffn_up";
  names.down = "blk.{}.ffn_down";
  names.mlp_norm = pre_norm ? "blk.{}.ffn_norm" : "blk.{}.layer_output_norm";
  names.final_norm = "output_norm";
  names.head_dense = "/cls";
  names.head_norm = "/cls.norm";
  names.head_out = "/cls.output";
  return names;
}

}  // namespace

EncoderNames encoder_names(const EncoderConfig& config, bool gguf) {
  if (gguf) return gguf_names(config.pre_norm);
  if (config.family == "bert") return bert_names();
  if (config.family == "distilbert") return distilbert_names();
  if (config.family == "nomic_bert") return nomic_names();
  if (config.family == "modernbert") return modernbert_names();
  return roberta_names();
}

}  // namespace quern

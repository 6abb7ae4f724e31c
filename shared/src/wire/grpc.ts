// Turns a protobuf-es service descriptor into grpc-js definitions, with types on both sides: a wrong message, a missing
// handler or a wrong field does not compile. One method may be raw: the log stream carries hundreds of thousands of
// records per second, and its own codec (log-codec.ts) creates no objects for them.
import type { DescMessage, DescMethod, DescService, MessageShape } from '@bufbuild/protobuf'
import { fromBinary, toBinary } from '@bufbuild/protobuf'
import type { GenService, GenServiceMethods } from '@bufbuild/protobuf/codegenv2'
import {
  type CallOptions,
  type ChannelCredentials,
  Client,
  type ClientDuplexStream,
  type ClientOptions,
  type ClientReadableStream,
  type ClientUnaryCall,
  type ClientWritableStream,
  type handleBidiStreamingCall,
  type handleClientStreamingCall,
  type handleServerStreamingCall,
  type handleUnaryCall,
  type Metadata,
  type MethodDefinition,
  type requestCallback,
  type ServiceDefinition,
} from '@grpc/grpc-js'

type Kinds = GenServiceMethods
type In<M> = M extends { input: infer I extends DescMessage } ? MessageShape<I> : never
type Out<M> = M extends { output: infer O extends DescMessage } ? MessageShape<O> : never
type Kind<M> = M extends { methodKind: infer K } ? K : never

type Definition<T extends Kinds> = { [K in keyof T]: MethodDefinition<In<T[K]>, Out<T[K]>> }

type HandlerOf<M> =
  Kind<M> extends 'bidi_streaming'
    ? handleBidiStreamingCall<In<M>, Out<M>>
    : Kind<M> extends 'server_streaming'
      ? handleServerStreamingCall<In<M>, Out<M>>
      : Kind<M> extends 'client_streaming'
        ? handleClientStreamingCall<In<M>, Out<M>>
        : handleUnaryCall<In<M>, Out<M>>
type MethodsOf<S> = S extends GenService<infer T extends Kinds> ? T : never
/** Handler types for a generated service: `const h: ServiceHandlers<typeof AgentService> = {...}`. */
export type ServiceHandlers<S> = { [K in keyof MethodsOf<S>]: HandlerOf<MethodsOf<S>[K]> }

type CallOf<M> =
  Kind<M> extends 'bidi_streaming'
    ? (metadata?: Metadata) => ClientDuplexStream<In<M>, Out<M>>
    : Kind<M> extends 'server_streaming'
      ? (request: In<M>, metadata?: Metadata) => ClientReadableStream<Out<M>>
      : Kind<M> extends 'client_streaming'
        ? (callback: requestCallback<Out<M>>) => ClientWritableStream<In<M>>
        : (
            request: In<M>,
            options: CallOptions,
            callback: requestCallback<Out<M>>,
          ) => ClientUnaryCall
export type ServiceClient<T extends Kinds> = { [K in keyof T]: CallOf<T[K]> } & Client

// Buffer.from(u8) would copy; this shares the memory.
const toBuffer = (u8: Uint8Array): Buffer => Buffer.from(u8.buffer, u8.byteOffset, u8.byteLength)

function methodDefinition(
  service: DescService,
  method: DescMethod,
): MethodDefinition<never, never> {
  const { input, output } = method
  const definition: MethodDefinition<MessageShape<DescMessage>, MessageShape<DescMessage>> = {
    path: `/${service.typeName}/${method.name}`,
    originalName: method.localName,
    requestStream:
      method.methodKind === 'client_streaming' || method.methodKind === 'bidi_streaming',
    responseStream:
      method.methodKind === 'server_streaming' || method.methodKind === 'bidi_streaming',
    requestSerialize: (m) => toBuffer(toBinary(input, m)),
    requestDeserialize: (b) => fromBinary(input, b),
    responseSerialize: (m) => toBuffer(toBinary(output, m)),
    responseDeserialize: (b) => fromBinary(output, b),
  }
  return definition as unknown as MethodDefinition<never, never>
}

const same = (bytes: Buffer): Buffer => bytes

/** For `server.addService(serviceDefinition(AgentService), handlers)`; requests of `raw` stay bytes. */
export function serviceDefinition<T extends Kinds>(
  service: GenService<T>,
  raw: keyof T | undefined = undefined,
): Definition<T> & ServiceDefinition {
  const out: Record<string, MethodDefinition<never, never>> = {}
  for (const method of service.methods) {
    const definition = methodDefinition(service, method)
    out[method.localName] =
      method.localName === raw
        ? ({ ...definition, requestDeserialize: same } as unknown as typeof definition)
        : definition
  }
  return out as unknown as Definition<T> & ServiceDefinition
}

/** A two-way stream whose requests are already encoded: the client's side of a raw method. */
export function openRawStream<O extends DescMessage>(
  client: Client,
  service: DescService,
  method: DescMethod & { output: O },
): ClientDuplexStream<Buffer, MessageShape<O>> {
  const path = `/${service.typeName}/${method.name}`
  const decode = (bytes: Buffer): MessageShape<O> => fromBinary(method.output, bytes)
  return client.makeBidiStreamRequest(path, same, decode)
}

/** An upload whose requests are already encoded, because files have gigabytes. */
export function openRawUpload<O extends DescMessage>(
  client: Client,
  service: DescService,
  method: DescMethod & { output: O },
  callback: requestCallback<MessageShape<O>>,
): ClientWritableStream<Buffer> {
  const path = `/${service.typeName}/${method.name}`
  const decode = (bytes: Buffer): MessageShape<O> => fromBinary(method.output, bytes)
  return client.makeClientStreamRequest(path, same, decode, callback)
}

/** A typed client: `const c = createClient(AgentService, 'host:port', creds); c.connect()`. */
export function createClient<T extends Kinds>(
  service: GenService<T>,
  address: string,
  credentials: ChannelCredentials,
  options?: ClientOptions,
): ServiceClient<T> {
  const client = new Client(address, credentials, options)
  const calls = client as unknown as Record<string, unknown>
  for (const method of service.methods) {
    const d = methodDefinition(service, method) as unknown as MethodDefinition<unknown, unknown>
    const { path, requestSerialize: ser, responseDeserialize: de } = d
    calls[method.localName] =
      d.requestStream && d.responseStream
        ? (md: Metadata) => client.makeBidiStreamRequest(path, ser, de, md)
        : d.responseStream
          ? (req: unknown, md: Metadata) => client.makeServerStreamRequest(path, ser, de, req, md)
          : d.requestStream
            ? (cb: requestCallback<unknown>) => client.makeClientStreamRequest(path, ser, de, cb)
            : (req: unknown, options: CallOptions, cb: requestCallback<unknown>) =>
                client.makeUnaryRequest(path, ser, de, req, options, cb)
  }
  return client as unknown as ServiceClient<T>
}

/** A message whose only field is these bytes, copied once: the generated encoder copies several times. */
export function encodeBytes(field: number, bytes: Uint8Array): Buffer {
  const head: number[] = []
  for (const value of [(field << 3) | 2, bytes.length]) {
    let rest = value
    for (; rest > 0x7f; rest >>>= 7) head.push((rest & 0x7f) | 0x80)
    head.push(rest)
  }
  return Buffer.concat([Buffer.from(head), bytes])
}

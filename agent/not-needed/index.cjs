// Takes the place of packages that gRPC and dockerode name and Berth never uses: SSH, TLS, tar, descriptions of protocols
// and debug output, which would show values of variables (see the overrides in pnpm-workspace.yaml). While it is loaded,
// docker-modem extends `Duplex` and calls the function of `debug`.
module.exports = Object.assign(() => () => undefined, { Duplex: require('node:stream').Duplex })

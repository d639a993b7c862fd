// SPDX-License-Identifier: Apache-2.0

/// Warns, in debug builds, that the packages of one graph ask for several context backends: traits add up, so that one
/// package can make the switches of all others slower.
enum BackendChoice {
  /// Once in the process, when its first pool, stack or queued coroutine is made.
  static func warn() {
    #if DEBUG
      if let message = message(traits: BackendTraits.names, selected: SelectedBackend.name) {
        CoroutineErrors.print(message)
      }
    #endif
  }

  /// `nil` where there is no choice. The default's trait is on as soon as one package depends on this one without naming traits.
  static func message(traits: [String], selected: String) -> String? {
    guard traits.count > 1 else { return nil }
    return "The packages of this program turn on several context backends, \(traits.joined(separator: " and ")): "
      + "\(selected) is used. To find out who asks for it, look for the traits of the package Coroutine in their manifests. "
      + "Coroutine.requireBackend(\"\(traits[0])\") at the start ends a program that runs on another one. (Said in debug "
      + "builds only.)"
  }
}

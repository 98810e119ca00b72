<?php
// Checks each login before its password is looked at, from PHP by FFI. Reads one user a line, as the
// example login of the Rust library does:
//
//     printf 'alice\nbob\n' | php bindings/examples/login.php data
//
// FRS_H names frs.h, FRS_LIB the library: where bindings/c/install has put them.

$header = file_get_contents(getenv('FRS_H') ?: '/usr/local/include/frs.h');
// FFI takes declarations, and neither macros nor #include.
$header = preg_replace('~/\*.*?\*/~s', '', $header);
$header = preg_replace('~^#ifdef __cplusplus.*?^#endif~ms', '', $header);
$header = preg_replace('~^#.*?(?<!\\\\)\n~ms', '', $header);
$frs = FFI::cdef($header, getenv('FRS_LIB') ?: 'libfrs.so.1');

$handle = $frs->new('frs *');
if ($frs->frs_open($argv[1] ?? 'data', FFI::addr($handle)) !== 0) {
    fwrite(STDERR, 'login: ' . $frs->frs_message() . "\n");
    exit(1);
}

$item = $frs->new('frs_item');
$item->size = FFI::sizeof($item);
$result = $frs->new('frs_result');
$result->size = FFI::sizeof($result);

// PHP's strings are not C's: the bytes that a structure points to must live as long as it does.
function text(FFI $frs, string $text): FFI\CData
{
    $bytes = $frs->new('char[' . max(1, strlen($text)) . ']');
    FFI::memcpy($bytes, $text, strlen($text));
    return $bytes;
}

$biz = text($frs, 'login');
while (($user = fgets(STDIN)) !== false) {
    $user = rtrim($user, "\n");
    $key = text($frs, $user);
    $item->biz = $frs->cast('char *', $biz);
    $item->biz_bytes = strlen('login');
    $item->key = $frs->cast('char *', $key);
    $item->key_bytes = strlen($user);
    $item->count = 1;
    $code = $frs->frs_update($handle, FFI::addr($item), FFI::addr($result));
    if ($code !== 0) {
        echo "$user: not judged: ", $frs->frs_strerror($code), "\n";
    } elseif ($result->limited) {
        echo "$user: no, try again in {$result->retry_ms} ms\n";
    } else {
        echo "$user: yes, {$result->remaining} more\n";
    }
}
$frs->frs_close($handle);

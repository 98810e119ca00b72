//! The gateways of conf/examples/gateways: nginx, HAProxy, Envoy and Caddy. Each runs with its
//! shipped file in front of an application and queries a real frs. The stories of their page are
//! played with each. The routers of conf/examples/cluster have their own stories, in routing.rs.
//!
//! Only the addresses in the shipped files are changed, and the one line of a variant. The requests
//! that reached the application are read from the application, not from the gateway's answers.

pub(crate) mod application;
mod pages;
pub(crate) mod programs;
mod routing;
mod stage;
mod stories;

/// The same stories for each gateway.
macro_rules! play {
    ($($gateway:ident: $($story:ident)*;)*) => {$(
        mod $gateway {
            $(
                #[test]
                fn $story() {
                    crate::gateways::stories::$story(&crate::gateways::programs::$gateway());
                }
            )*
        }
    )*};
}

macro_rules! play_all {
    ($($gateway:ident)*) => {
        play! {$(
            $gateway:
                the_sixth_login_is_refused_by_the_gateway
                a_client_is_told_what_is_left
                other_paths_pass_freely
                no_spelling_of_the_path_goes_around_it
                nothing_that_a_client_sends_chooses_the_key
                what_a_browser_says_of_its_page_is_the_applications_business
                the_answers_of_the_application_are_its_own
                without_frs_it_is_closed_and_the_count_goes_on_after_it
                without_frs_it_is_open_in_the_other_variant
                a_stopped_frs_is_waited_for_shortly_and_asked_once
                an_frs_that_fails_is_as_one_that_is_away
                a_biz_that_is_not_there_is_closed_in_both_variants;
        )*}
    };
}

play_all!(nginx haproxy envoy caddy);
